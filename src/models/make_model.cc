#include <torch/torch.h>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/models/models.h"

namespace shoal {

std::vector<std::string> model_names() { return {"mlp", "nature-cnn"}; }

std::shared_ptr<ActorCriticModel> make_model(const NamedSpecs& observation, std::int64_t policy_size,
                                             const ModelOptions& options, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  if (options.name == "mlp") return make_mlp(observation, policy_size, options, generator);
  if (options.name == "nature-cnn") return make_nature_cnn(observation, policy_size, generator);
  throw Error("unknown model '{}'; did you mean '{}'?", options.name, nearest(options.name, model_names()));
}

}  // namespace shoal
