#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shoal/core/rows.h"
#include "shoal/data/samples.h"

namespace shoal {

// Tensors on their way into and out of a checkpoint, by name.

// The tensor of this name. Throws Error if there is none.
const at::Tensor& saved(const NamedTensors& from, const std::string& name);

// Copies the tensor named prefix + name into each target. Throws Error, and copies none, if one is
// missing or of another type or shape.
void restore(const NamedTensors& from, const std::string& prefix, NamedTensors targets);

// Restores every tensor that `from` has under this prefix. Throws Error for a tensor that no target
// has, too: it belongs to something else than these targets.
void restore_all(const NamedTensors& from, const std::string& prefix, NamedTensors targets);

// Throws Error for a floating-point tensor with a number that is NaN or infinite, and names both.
void require_finite(const NamedTensors& tensors);

// Adds all of them, with `prefix` before their names; and those whose names begin with it, without.
void add_with_prefix(const std::string& prefix, const NamedTensors& from, NamedTensors& to);
NamedTensors with_prefix(const std::string& prefix, const NamedTensors& from);

// The first n rows of what all who keep rows read again: "rows/observation/NAME", likewise "mask"
// and "action", "rows/reward", "rows/first" and "rows/valid"; views.
NamedTensors first_rows(const Rows& rows, std::int64_t n);

// For another process of this program: tensors on the CPU, and back.
std::vector<std::byte> to_bytes(const NamedTensors& tensors);
NamedTensors from_bytes(std::span<const std::byte> bytes);

}  // namespace shoal
