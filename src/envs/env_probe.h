#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/envs/check_env.h"
#include "shoal/envs/env.h"
#include "shoal/ipc/worker_group.h"

namespace shoal {

// What an environment may write, field by field, in one row of memory.
struct RowLayout {
  struct Field {
    std::string what;  // "observation 'camera'"
    ArraySpec spec;
    std::size_t offset;
    bool by_reset;  // reset() writes it, too
  };
  explicit RowLayout(const EnvSpec& env);

  std::vector<Field> fields;  // observations, infos, the action mask
  std::size_t observations, infos;
  bool mask;
  std::size_t bytes = 0;
};

// How a mode differs from playing one new environment.
enum class ProbeMode : std::uint8_t {
  kAlone,
  kAgain,    // the environment has been played before, and is reset with the seed
  kAmong,    // others are stepped between its steps
  kRestored  // halfway, its state is saved, and a new one goes on from it
};

// What a row is besides its fields.
struct RowResult {
  StepResult result;
  bool is_reset;
  bool overrun;              // something was written behind a field
  std::int64_t field;        // which
  std::int64_t allocations;  // made by the call
};

// Random actions played in a child process, everything that was written recorded.
class EnvProbe {
 public:
  struct Options {
    ProbeMode mode = ProbeMode::kAlone;
    std::uint64_t seed = 1;  // of the environment; the actions are always the same
    std::byte fill{0};       // what a row holds before it is written
    int number = 1;          // of this mode, for CheckEnvOptions::progress
  };
  static constexpr int kTrials = 7;
  // Throws WorkerError if the environment throws, crashes or hangs.
  EnvProbe(const EnvFactory& make_env, const EnvSpec& spec, const CheckEnvOptions& limits,
           const Options& options);

  std::int64_t rows() const { return rows_; }
  std::span<const std::byte> field(std::int64_t row, std::size_t i) const;
  const RowResult& result(std::int64_t row) const;
  const RowLayout& layout() const { return layout_; }
  // kRestored: whether the environment offers it.
  bool complete() const { return *reinterpret_cast<const bool*>(arena_.data(complete_)); }

 private:
  class Actor;
  std::atomic<std::int64_t>& row() const;  // that is being played
  void play(const EnvFactory& make_env, const EnvSpec& spec, const CheckEnvOptions& limits,
            const Options& options, WorkerStatus& status);

  RowLayout layout_;
  std::int64_t rows_;
  Arena::Plan plan_;
  Arena::Field data_, results_, complete_, row_;
  Arena arena_;
};

}  // namespace shoal
