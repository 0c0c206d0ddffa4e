#include "shoal/runners/summary_file.h"

#include <nlohmann/json.hpp>

#include "shoal/core/error.h"
#include "shoal/runners/files.h"

namespace shoal {

RunSummary read_summary(const std::filesystem::path& file) {
  const auto damaged = [&file] {
    return Error("{} is damaged; remove it, and the checkpoint of the run is used instead",
                 file.string());
  };
  try {
    const auto summary = nlohmann::json::parse(read_file(file));
    const auto &mean = summary.at("final_return"), &steps = summary.at("steps");
    if (!steps.is_number_integer()) throw damaged();  // 1e300 has no std::int64_t
    return {.final_return = mean.is_number() ? mean.get<double>() : std::nan(""),
            .steps = steps,
            .sps = summary.at("sps"),
            .solved = summary.at("solved")};
  } catch (const nlohmann::json::exception&) {
    throw damaged();
  }
}

}  // namespace shoal
