#include "shoal/runners/trained_agent.h"

#include <set>
#include <system_error>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/export.h"
#include "shoal/runners/zoo.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

// The algorithm sets them before each rollout, for the environments of its run.
const std::set<std::string> kExploration{"epsilon", "exploration"};

// A folder may have any name.
bool is_file(const fs::path& found) {
  std::error_code ignored;
  return !fs::is_directory(found, ignored) &&
         (fs::exists(found, ignored) || found.extension() == ".safetensors");
}
bool is_weights(const fs::path& found) {
  return is_file(found) && found.extension() == ".safetensors";
}
fs::path file_of(const fs::path& found, const std::string& checkpoint) {
  return is_file(found) ? found : found / checkpoint;
}

}  // namespace

Config trained_config(const fs::path& trained) {
  const auto found = run_or_zoo(trained);
  if (is_weights(found)) return weights_config(found);
  return read_run_config(is_file(found) ? found.parent_path() : found);
}

void restore_trained(const fs::path& trained, Agent& agent, const std::string& checkpoint,
                     bool keep_exploration) {
  const auto kept = keep_exploration ? kExploration : std::set<std::string>();
  const auto found = run_or_zoo(trained);
  require(!is_file(found) || checkpoint == kCheckpointFile,
          "checkpoint: found '{}', but {} is one file; expected a run folder", one_line(checkpoint),
          one_line(trained.string(), 300));
  if (is_weights(found)) {
    import_weights(agent, found, kept);
    return;
  }
  const auto file = file_of(found, checkpoint);
  auto from = read_checkpoint(file);
  for (const auto& [name, own] : agent.parameters())
    if (kept.contains(name) && from.tensors.contains("agent/" + name))
      from.tensors.at("agent/" + name) = own;
  restore_agent(from, file, agent);
}

void require_trained(const fs::path& trained) {
  const auto found = run_or_zoo(trained);
  const auto file = file_of(found, kCheckpointFile);
  std::error_code error;
  require(fs::exists(file, error) || error,
          "there is no {}; expected the folder of a run that has a checkpoint, a checkpoint, a "
          ".safetensors file or zoo:NAME",
          one_line(file.string(), 300));
  require(!error, "{} cannot be read: {}", one_line(file.string(), 300), error.message());
}

}  // namespace shoal
