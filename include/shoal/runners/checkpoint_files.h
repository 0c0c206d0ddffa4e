#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shoal/runners/checkpoint.h"

namespace shoal {

inline constexpr const char* kCheckpointFile = "model.ckpt";  // the newest checkpoint
inline constexpr const char* kBestFile = "best.ckpt";  // the agent with the best return of an
                                                       // evaluation, or of 100 episodes

// The checkpoints of a run in its folder. The newest is model.ckpt. If `keep` is above one, the
// last `keep` checkpoints are also named checkpoint-<steps>.ckpt (hard links, if the file system
// supports them). A failed write leaves the existing checkpoints unchanged.
class CheckpointFiles {
 public:
  CheckpointFiles(std::filesystem::path folder, std::int64_t keep)
      : folder_(std::move(folder)), keep_(keep) {}

  // Both throw as FileReplacement does.
  void write(const Checkpoint& checkpoint, std::int64_t steps) const;
  void write_best(const Checkpoint& checkpoint) const;

  // Makes the checkpoint `name` of the folder, of this step, the newest one, and removes later
  // ones.
  void go_back(const std::string& name, std::int64_t steps) const;

  // The replay of one of several ranks, in its own file replay-<steps>-<rank>.ckpt. It is written
  // before the checkpoint at the same step and kept as long as that checkpoint. Writing throws as
  // FileReplacement does; reading throws Error.
  void write_replay(const NamedTensors& replay, std::int64_t steps, int rank) const;
  NamedTensors read_replay(std::int64_t steps, int rank) const;

 private:
  void drop_oldest(std::int64_t newest) const;
  std::filesystem::path folder_;
  std::int64_t keep_;
};

}  // namespace shoal
