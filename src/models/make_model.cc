#include <torch/torch.h>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/models/models.h"

namespace shoal {

namespace {

// torch's layers fill themselves from the global generator before we initialise them: gives it its
// state back.
class GlobalGeneratorKept {
 public:
  ~GlobalGeneratorKept() { generator_.set_state(state_); }

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor state_ = generator_.get_state();
};

}  // namespace

std::vector<std::string> model_names() { return {"mlp", "nature-cnn"}; }

std::shared_ptr<ActorCriticModel> make_model(const NamedSpecs& observation,
                                             std::int64_t policy_size, const ModelOptions& options,
                                             std::uint64_t seed) {
  const GlobalGeneratorKept kept;
  auto generator = at::detail::createCPUGenerator(seed);
  if (options.name == "mlp") return make_mlp(observation, policy_size, options, generator);
  if (options.name == "nature-cnn") return make_nature_cnn(observation, policy_size, generator);
  throw Error("unknown model '{}'; did you mean '{}'?", options.name,
              nearest(options.name, model_names()));
}

}  // namespace shoal
