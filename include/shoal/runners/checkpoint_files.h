#pragma once

#include <cstdint>
#include <filesystem>

#include "shoal/runners/checkpoint.h"

namespace shoal {

inline constexpr const char* kCheckpointFile = "model.ckpt";  // the newest
inline constexpr const char* kBestFile = "best.ckpt";         // the one with the best return

// The checkpoints of a run, in its folder: the newest is model.ckpt, and the last `keep`, if more
// than one, are checkpoint-<steps>.ckpt, too (the same file under two names, where the file system
// has links). Whatever happens while one is written, the others stay as they are.
class CheckpointFiles {
 public:
  CheckpointFiles(std::filesystem::path folder, std::int64_t keep)
      : folder_(std::move(folder)), keep_(keep) {}

  // Both throw as FileReplacement does.
  void write(const Checkpoint& checkpoint, std::int64_t steps) const;
  void write_best(const Checkpoint& checkpoint) const;

  // What one of several ranks has in its replay, in a file of its own: replay-<steps>-<rank>.ckpt.
  // It is written before the checkpoint of as many steps, and kept as long as that. Writing throws
  // as FileReplacement does, reading throws Error.
  void write_replay(const NamedTensors& replay, std::int64_t steps, int rank) const;
  NamedTensors read_replay(std::int64_t steps, int rank) const;

 private:
  void drop_oldest(std::int64_t newest) const;
  std::filesystem::path folder_;
  std::int64_t keep_;
};

}  // namespace shoal
