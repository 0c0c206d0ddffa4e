// A file of weights in the format of safetensors.
#include <ATen/ATen.h>

#include <sstream>
#include <string>

#include "runners/weights_format.h"
#include "shoal/data/saved.h"
#include "shoal/models/actor_critic.h"
#include "tests/fuzz/fuzz.h"

namespace shoal::fuzz {

void run(std::string_view input) {
  static const auto agent = make_actor_critic(
      {.id = "Three", .observation = ArraySpec{.shape = {3}}, .action = ActionSpec::discrete(2)},
      {.hidden = {4}}, {}, 1);
  const std::string bytes(input);
  accepts([&] {
    std::istringstream in(bytes);
    weights_config(in, bytes.size());
  });
  const bool taken = accepts([&] {
    std::istringstream in(bytes);
    import_weights(*agent, in, bytes.size());
  });
  if (!taken) return;
  std::uint64_t elements = 0;
  for (const auto& [name, tensor] : agent->parameters()) elements += tensor.nbytes();
  expect(elements < bytes.size(), "no more elements than bytes");
  require_finite(agent->parameters());
}

}  // namespace shoal::fuzz
