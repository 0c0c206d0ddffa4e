#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

#include "shoal/data/samples.h"

namespace shoal {

// Arithmetic of a network's products; sums and parameters are always float32. kBf16:
// - Acting on a CPU with AVX2, but without AMX, rounds weights to bfloat16 and computes in float32,
//   because the incremental convolutions, which skip unchanged parts of an image, gain more.
// - SAC, TD3 and DDPG round both factors to bfloat16 where that is faster: with AMX, and on AMD's
//   CPUs with AVX512-BF16. With AMX, forward passes multiply what that rounds off, too: 16
//   significant bits instead of 8. On other CPUs their kBf16 means float32.
enum class Precision : std::uint8_t { kFloat32, kBf16 };
inline constexpr std::pair<const char*, Precision> kPrecisionNames[] = {
    {"float32", Precision::kFloat32}, {"bf16", Precision::kBf16}};
inline const auto& names_of(Precision) { return kPrecisionNames; }

// A network prepared for acting on the CPU. Called by one thread, without gradients.
class ActingNetwork {
 public:
  virtual ~ActingNetwork() = default;
  // Copies the model's current parameters. Call after every change of them.
  virtual void refresh() = 0;
  // policy: [N, policy_size] float32, value: [N] float32; contiguous, filled in place. The rows
  // belong to environments first_env, first_env + 1, ..., so that results for an environment's last
  // observation may be reused for its next one. -1: the rows are no such sequence.
  virtual void run(const Observations& observation, at::Tensor& policy, at::Tensor& value,
                   std::int64_t first_env) = 0;
  // See Agent::rows_are_independent().
  virtual bool rows_are_independent() const { return false; }
  // The arithmetic in use, for display: e.g. "row-wise float32, AVX2".
  virtual std::string description() const = 0;
};

struct ModelIn;
struct ModelOut;

// ActingNetwork of a model with state.
class RecurrentActing {
 public:
  virtual ~RecurrentActing() = default;
  virtual void refresh() = 0;
  // One step of each sequence (ModelIn::time is 1). The tensors of `out` are allocated by the
  // caller, contiguous, and filled in place. ModelOut::state must not alias ModelIn::state, and is
  // empty if only values are needed.
  virtual void run(const ModelIn& in, ModelOut& out) = 0;
  // See Agent::rows_are_independent().
  virtual bool rows_are_independent() const { return false; }
  virtual std::string description() const = 0;
};

}  // namespace shoal
