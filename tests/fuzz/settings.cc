// A settings file: accepted settings are unchanged after writing and reading.
#include <string>

#include "runners/toml_limits.h"
#include "shoal/runners/config.h"
#include "tests/fuzz/fuzz.h"

namespace shoal::fuzz {

void run(std::string_view input) {
  Config config;
  const auto read = [&] { config = parse_config(std::string(input), "config.toml"); };
  if (input.size() > kLargestToml || !accepts(read)) return;
  const std::string text = write_config(config);
  expect(write_config(parse_config(text, "config.toml")) == text, "the same settings again");
  accepts([&] { validate(config); });
}

}  // namespace shoal::fuzz
