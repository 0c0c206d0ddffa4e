#include "shoal/envs/registry.h"

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/envs/cart_pole.h"

namespace shoal {

EnvFactory make_env_factory(const std::string& id, const EnvOptions& options) {
  if (id == "CartPole-v1") return make_cart_pole();
  if (id.starts_with("ALE/")) return make_atari(id, options.atari);
  throw Error("unknown environment '{}'; did you mean '{}'?", id, nearest(id, env_ids()));
}

std::vector<std::string> env_ids() {
  std::vector<std::string> ids{"CartPole-v1"};
  for (std::string& id : atari_ids()) ids.push_back(std::move(id));
  return ids;
}

}  // namespace shoal
