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

// Pointers to the arrays of one environment and step, one per field, in the order of the spec.
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

// Destination of a step, in the shared rows. Every call must write every element of every field.
struct StepOut {
  ArraysOut observation;
  ArraysOut info;        // in the order of EnvSpec::info
  bool* mask = nullptr;  // one flag per action; null if the spec has no action mask
};

struct StepResult {
  float reward = 0;
  bool terminated =
      false;               // the task itself ended the episode: the value of the next state is zero
  bool truncated = false;  // the episode was cut, e.g. by a time limit: the value of the next state
                           // counts
  bool life_lost = false;  // with terminated: the agent's episode ends, but the game continues
                           // without a reset, unless it is also truncated; without: ignored

  bool episode_over() const { return (terminated && !life_lost) || truncated; }  // reset() is next
};

struct Image {
  int height = 0, width = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

// How a BatchEnv (batch_env.h) steps its environments.
struct BatchTraits {
  // A batch has a multiple of this many environments, e.g. of the agents of a game. 0: the
  // environment is not stepped in a batch.
  std::int64_t multiple = 0;
  bool waits = false;  // see BatchOut::waits
};

// One simulated task. It does not depend on torch, allocates nothing in step(), and shares no state
// with other instances. A process may hold any number of environments; each is used by one thread
// only.
class Env {
 public:
  virtual ~Env() = default;
  virtual const EnvSpec& spec() const = 0;

  // Starts a new episode and writes its first observation. A seed reseeds the random generator;
  // without one it continues.
  virtual void reset(std::optional<std::uint64_t> seed, StepOut out) = 0;
  // Takes one action and writes the next observation. After the end of an episode, reset() must
  // come first.
  virtual StepResult step(ArraysIn action, StepOut out) = 0;

  // Optional: the complete state, so that a loaded environment continues exactly as the saved one.
  // The bytes are empty before save(). False: not supported.
  virtual bool save(std::vector<std::byte>&) const { return false; }
  virtual bool load(std::span<const std::byte>) { return false; }
  // Optional: the environment's statistics over all episodes, such as the running variance of
  // rewards: EnvSpec::statistics_bytes bytes of plain data. A reset with a seed clears them.
  // Samplers save them separately from the episode, and restore them after such a reset.
  virtual std::span<std::byte> statistics() { return {}; }
  // Set by the environments of make_batched(), and by wrappers around them.
  virtual BatchTraits batch() const { return {}; }
  // Optional: renders the current state.
  virtual bool render(Image&) { return false; }
};

class Lanes;  // environments that are stepped together, inside the library

// Identifies the environment to construct.
struct EnvContext {
  std::uint64_t seed = 0;  // already mixed from (seed, stream, index); pass it to reset()
  std::int64_t index = 0;  // b
  Stream stream = Stream::kTrain;
  std::shared_ptr<Lanes> lanes = nullptr;  // null: it is stepped on its own
};

// Called in the worker that will use the environment, and in the agent process to read the spec.
using EnvFactory = std::function<std::unique_ptr<Env>(const EnvContext&)>;

}  // namespace shoal
