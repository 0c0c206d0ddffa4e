#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/core/spec.h"

namespace shoal {

// Where the arrays of one environment and one step lie: a pointer per field, in the order of its
// spec.
template <class Byte>
class ArrayRefs {
 public:
  ArrayRefs() = default;
  explicit ArrayRefs(std::span<Byte* const> fields) : fields_(fields) {}

  std::size_t size() const { return fields_.size(); }
  // The elements of field i. T must be the field's dtype.
  template <class T>
  auto* as(std::size_t i = 0) const {
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return reinterpret_cast<Element*>(fields_[i]);
  }

 private:
  std::span<Byte* const> fields_;
};

using ArraysIn = ArrayRefs<const std::byte>;
using ArraysOut = ArrayRefs<std::byte>;

// Where a step is written: straight into the shared rows. Every element of every field must be
// written at every call.
struct StepOut {
  ArraysOut observation;
  ArraysOut info;        // in the order of EnvSpec::info
  bool* mask = nullptr;  // one flag per action; null if the spec has no action mask
};

struct StepResult {
  float reward = 0;
  bool terminated =
      false;  // the episode ended by the task's own rules: its value after this is zero
  bool truncated = false;  // the episode was cut, e.g. by a time limit: its value goes on
  bool life_lost = false;  // with terminated: an end for the agent, but the game goes on and is not
                           // reset, unless it is truncated, too; without: ignored

  bool episode_over() const { return (terminated && !life_lost) || truncated; }  // reset() is next
};

struct Image {
  int height = 0, width = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

// One simulated task. It sees no torch, allocates nothing in step(), and shares no state with other
// instances: any number of them run in one process, and each is used by one thread only.
class Env {
 public:
  virtual ~Env() = default;
  virtual const EnvSpec& spec() const = 0;

  // Starts a new episode and writes its first observation. With a seed, randomness restarts from
  // it; without, it goes on.
  virtual void reset(std::optional<std::uint64_t> seed, StepOut out) = 0;
  // Advances by one action and writes the observation that follows. Not called after the end of an
  // episode before reset().
  virtual StepResult step(ArraysIn action, StepOut out) = 0;

  // Optional: the complete state, so that a loaded environment continues exactly as the saved one.
  // False: not offered.
  virtual bool save(std::vector<std::byte>&) const { return false; }
  virtual bool load(std::span<const std::byte>) { return false; }
  // Optional: where the environment keeps statistics over all its episodes, such as the running
  // variance of rewards: EnvSpec::statistics_bytes bytes of plain data. A reset with a seed clears
  // them. Samplers save them apart from the episode, and write them back after such a reset.
  virtual std::span<std::byte> statistics() { return {}; }
  // Optional: a picture of the current state.
  virtual bool render(Image&) { return false; }
};

// Which environment is being made.
struct EnvContext {
  std::uint64_t seed = 0;  // already mixed from (seed, stream, index): reset with it
  std::int64_t index = 0;  // b
  Stream stream = Stream::kTrain;
};

// Called in the worker that will use the environment, and in the agent process where the spec is
// asked for.
using EnvFactory = std::function<std::unique_ptr<Env>(const EnvContext&)>;

}  // namespace shoal
