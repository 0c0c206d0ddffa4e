#include "shoal/runners/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace fs = std::filesystem;

namespace shoal {
namespace {

constexpr const char *kNumbered = "checkpoint-", *kReplay = "replay-";

// Fixed width, so that names sort by steps.
std::string number(std::int64_t steps) { return fmt::format("{:012}", steps); }

fs::path replay_file(const fs::path& folder, std::int64_t steps, int rank) {
  return folder / fmt::format("{}{}-{}.ckpt", kReplay, number(steps), rank);
}

void give_second_name(const fs::path& file, const fs::path& name) {
  const fs::path temporary = name.string() + ".new";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(file, temporary, error);
  if (error && fs::copy_file(file, temporary, error)) sync_file(temporary);
  if (!error) fs::rename(temporary, name, error);
  std::error_code ignored;
  fs::remove(temporary, ignored);  // also there if both are names of one file already
  if (!error) return;
  throw std::runtime_error(fmt::format("cannot write {}: {}", name.string(), error.message()));
}

}  // namespace

void CheckpointFiles::write(const Checkpoint& checkpoint, std::int64_t steps) const {
  const auto newest = folder_ / kCheckpointFile;
  try {
    write_checkpoint(newest, checkpoint);
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(fmt::format("{}; the previous checkpoint is kept", e.what()));
  }
  if (keep_ > 1)
    give_second_name(newest, folder_ / fmt::format("{}{}.ckpt", kNumbered, number(steps)));
  drop_oldest(steps);
}

void CheckpointFiles::go_back(const std::string& name, std::int64_t steps) const {
  if (name != kCheckpointFile) give_second_name(folder_ / name, folder_ / kCheckpointFile);
  const auto last = fmt::format("{}{}.ckpt", kNumbered, number(steps));
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto other = entry.path().filename().string();
    if (other.starts_with(kNumbered) && other > last) fs::remove(entry.path());
  }
}

void CheckpointFiles::write_best(const Checkpoint& checkpoint) const {
  write_checkpoint(folder_ / kBestFile, checkpoint);
}

void CheckpointFiles::write_replay(const NamedTensors& replay, std::int64_t steps, int rank) const {
  write_checkpoint(replay_file(folder_, steps, rank), {.counters = {}, .tensors = replay});
}

NamedTensors CheckpointFiles::read_replay(std::int64_t steps, int rank) const {
  return read_checkpoint(replay_file(folder_, steps, rank)).tensors;
}

// Also removes the unfinished files of a killed run, and replays without their checkpoint.
void CheckpointFiles::drop_oldest(std::int64_t newest) const {
  std::vector<fs::path> files, replays;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(kReplay)) replays.push_back(entry.path());
    if (!name.starts_with(kNumbered)) continue;
    if (entry.path().extension() == ".ckpt") files.push_back(entry.path());
    if (entry.path().extension() == ".new") fs::remove(entry.path());
  }
  std::ranges::sort(files);
  const auto more = static_cast<std::int64_t>(files.size()) - (keep_ > 1 ? keep_ : 0);
  for (std::int64_t i = 0; i < more; ++i) fs::remove(files[static_cast<std::size_t>(i)]);
  std::vector<std::string> kept{number(newest)};
  for (auto i = std::max<std::int64_t>(more, 0); i < std::ssize(files); ++i)
    kept.push_back(files[static_cast<std::size_t>(i)].stem().string().substr(
        std::string_view(kNumbered).size()));
  for (const auto& replay : replays) {
    const auto name = replay.filename().string();
    const auto steps = name.substr(std::string_view(kReplay).size(), number(0).size());
    if (std::ranges::find(kept, steps) == kept.end()) fs::remove(replay);
  }
}

}  // namespace shoal
