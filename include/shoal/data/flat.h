#pragma once

#include <cstddef>
#include <span>

#include "shoal/data/samples.h"

namespace shoal {

// Tensors as bytes, one behind the other, for a ParameterBoard. Both ends must have the same names,
// types and shapes.
std::size_t bytes_of(const NamedTensors& tensors);
// From and to any device; `flat` has bytes_of(tensors).
void flatten(const NamedTensors& tensors, std::span<std::byte> flat);
void unflatten(std::span<const std::byte> flat, NamedTensors tensors);

}  // namespace shoal
