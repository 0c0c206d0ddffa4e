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

// The layout of one row of memory for the fields that an environment writes.
struct RowLayout {
  struct Field {
    std::string what;  // "observation 'camera'"
    ArraySpec spec;
    std::size_t offset;
    bool by_reset;  // reset() writes the field, too
  };
  explicit RowLayout(const EnvSpec& env);

  std::vector<Field> fields;  // observations, infos, the action mask
  std::size_t observations, infos;
  bool mask;
  std::size_t bytes = 0;
};

// How a trial differs from playing one new environment.
enum class ProbeMode : std::uint8_t {
  kAlone,
  kAgain,    // the environment has been played before and is reset with the seed
  kAmong,    // other environments are stepped between its steps
  kRestored  // halfway its state is saved, and a new environment continues from it
};

// The results of a row besides its fields.
struct RowResult {
  StepResult result;
  bool is_reset;
  bool overrun;              // something was written beyond a field
  std::int64_t field;        // the overrun field
  std::int64_t allocations;  // allocations during the call
};

// Plays random actions in a child process and records all that the environment writes.
class EnvProbe {
 public:
  struct Options {
    ProbeMode mode = ProbeMode::kAlone;
    std::uint64_t seed = 1;  // of the environment; the actions are the same for every seed
    std::byte fill{0};       // initial content of a row
    int number = 1;          // serial number of this trial, for CheckEnvOptions::progress
  };
  static constexpr int kTrials = 7;
  // Throws WorkerError if the environment throws, crashes or hangs.
  EnvProbe(const EnvFactory& make_env, const EnvSpec& spec, const CheckEnvOptions& limits,
           const Options& options);

  std::int64_t rows() const { return rows_; }
  std::span<const std::byte> field(std::int64_t row, std::size_t i) const;
  const RowResult& result(std::int64_t row) const;
  const RowLayout& layout() const { return layout_; }
  // kRestored: whether the environment supports it.
  bool complete() const { return *reinterpret_cast<const bool*>(arena_.data(complete_)); }

 private:
  class Actor;
  std::atomic<std::int64_t>& row() const;  // the current row
  void play(const EnvFactory& make_env, const EnvSpec& spec, const CheckEnvOptions& limits,
            const Options& options, WorkerStatus& status);

  RowLayout layout_;
  std::int64_t rows_;
  Arena::Plan plan_;
  Arena::Field data_, results_, complete_, row_;
  Arena arena_;
};

}  // namespace shoal
