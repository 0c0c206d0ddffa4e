// "key=value", as for `--set`: accepted settings are unchanged after writing and reading.
#include <algorithm>
#include <string>

#include "shoal/runners/config.h"
#include "tests/fuzz/fuzz.h"

namespace shoal::fuzz {

void run(std::string_view input) {
  const auto equals = std::min(input.find('='), input.size());
  const std::string key(input.substr(0, equals));
  const std::string value(input.substr(std::min(equals + 1, input.size())));
  Config config = preset("cartpole-ppo");
  if (key == "base" || !accepts([&] { set(config, key, value); })) return;
  const std::string text = write_config(config);
  expect(write_config(parse_config(text, "config.toml")) == text, "the same settings again");
  accepts([&] { validate(config); });
}

}  // namespace shoal::fuzz
