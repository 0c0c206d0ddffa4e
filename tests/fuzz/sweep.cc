// A sweep file of `shoal launch`.
#include "cli/sweep.h"

#include <filesystem>
#include <set>
#include <string>

#include "runners/toml_limits.h"
#include "tests/fuzz/fuzz.h"

namespace shoal::fuzz {

void run(std::string_view input) {
  const std::filesystem::path out = "runs/sweep";
  if (input.size() > kLargestToml) return;
  accepts([&] {
    const auto sweep = cli::parse_sweep(std::string(input), "sweep.toml", out);
    std::set<std::string> folders;
    for (const auto& one : sweep.runs) {
      expect(one.folder.lexically_normal().parent_path() == out,
             "folders of runs within the sweep's");
      expect(folders.insert(one.folder.string()).second, "a folder for each run");
    }
  });
}

}  // namespace shoal::fuzz
