#include "shoal/runners/zoo.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/core/plugin.h"

namespace fs = std::filesystem;

namespace shoal {

constexpr std::string_view kPrefix = "zoo:";

fs::path zoo_folder() {
  std::error_code ignored;
  const auto folder = own_binary().parent_path();
  for (const auto& zoo : {folder / "zoo", folder.parent_path() / "share" / "shoal" / "zoo"})
    if (fs::exists(zoo, ignored)) return zoo;
  return SHOAL_SOURCE_ZOO;
}

std::vector<ZooPolicy> zoo() {
  std::vector<ZooPolicy> policies;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(zoo_folder(), error))
    if (entry.path().extension() == ".safetensors")
      policies.push_back({entry.path().stem().string(), entry.path()});
  std::ranges::sort(policies, {}, &ZooPolicy::name);
  return policies;
}

bool is_in_zoo(const std::string& word) { return word.starts_with(kPrefix); }

fs::path run_or_zoo(const std::string& word) {
  if (!is_in_zoo(word)) return word;
  const auto name = word.substr(kPrefix.size());
  const auto policies = zoo();
  const auto found = std::ranges::find(policies, name, &ZooPolicy::name);
  if (found != policies.end()) return found->file;
  std::vector<std::string> names;
  for (const auto& policy : policies) names.push_back(policy.name);
  require(!names.empty(), "there is no policy in {}", zoo_folder().string());
  throw Error("the zoo has no '{}'; the nearest is '{}'; `shoal zoo` lists all", one_line(name),
              nearest(name, names));
}

}  // namespace shoal
