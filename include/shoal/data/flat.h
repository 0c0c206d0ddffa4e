#pragma once

#include <cstddef>
#include <span>

#include "shoal/data/samples.h"

namespace shoal {

// Tensors as consecutive bytes, for a ParameterBoard. Both sides must have the same names, dtypes
// and shapes.
std::size_t bytes_of(const NamedTensors& tensors);
// Tensors may be on any device. Throws Error unless `flat` has bytes_of(tensors) bytes: the tensors
// have changed their sizes or types.
void flatten(const NamedTensors& tensors, std::span<std::byte> flat);
void unflatten(std::span<const std::byte> flat, NamedTensors tensors);

}  // namespace shoal
