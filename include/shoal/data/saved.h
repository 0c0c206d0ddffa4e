#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/core/rows.h"
#include "shoal/data/samples.h"

namespace shoal {

// Saving tensors to a checkpoint and restoring them, by name.

// The tensor with this name in a checkpoint. Throws Error if it is missing.
const at::Tensor& saved(const NamedTensors& from, std::string_view name);

// Copies the tensor named prefix + name into each target. Throws Error, before any copy, if one is
// missing or its dtype or shape differs.
void restore(const NamedTensors& from, const std::string& prefix, NamedTensors targets);

// Restores every tensor of `from` under this prefix. Also throws Error for a tensor without a
// target: the checkpoint is of something else.
void restore_all(const NamedTensors& from, const std::string& prefix, NamedTensors targets);

// Throws Error, with the tensor's name and the number, if a floating-point tensor has a NaN or
// infinite element.
void require_finite(const NamedTensors& tensors);

// add_with_prefix() adds all tensors with `prefix` before their names; with_prefix() returns the
// tensors whose names start with it, without the prefix.
void add_with_prefix(const std::string& prefix, const NamedTensors& from, NamedTensors& to);
NamedTensors with_prefix(const std::string& prefix, const NamedTensors& from);

// Views of the first n rows of the fields that every replay restores: "rows/observation/NAME",
// "rows/mask/NAME", "rows/action/NAME", "rows/reward", "rows/first" and "rows/valid".
NamedTensors first_rows(const Rows& rows, std::int64_t n);

// Serialises CPU tensors for another process of this program, and back.
std::vector<std::byte> to_bytes(const NamedTensors& tensors);
NamedTensors from_bytes(std::span<const std::byte> bytes);

}  // namespace shoal
