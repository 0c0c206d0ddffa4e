#pragma once

#include <string>

#include "shoal/data/samples.h"

namespace shoal {

// Tensors on their way into and out of a checkpoint, by name.

// The tensor of this name. Throws Error if there is none.
const at::Tensor& saved(const NamedTensors& from, const std::string& name);

// Copies the tensor named prefix + name into each target. Throws Error if one is missing or of
// another type or shape.
void restore(const NamedTensors& from, const std::string& prefix, NamedTensors targets);

// Adds all of them, with `prefix` before their names; and those whose names begin with it, without.
void add_with_prefix(const std::string& prefix, const NamedTensors& from, NamedTensors& to);
NamedTensors with_prefix(const std::string& prefix, const NamedTensors& from);

}  // namespace shoal
