#pragma once

#include <cstdint>
#include <utility>

namespace shoal {

// How gradients become steps.
enum class OptimizerKind : std::uint8_t {
  kAdam,     // Kingma and Ba, arXiv 1412.6980; betas 0.9 and 0.999
  kRmsProp,  // Tieleman and Hinton, 2012; decay 0.99, as A3C had it
};
inline constexpr std::pair<const char*, OptimizerKind> kOptimizerNames[] = {
    {"adam", OptimizerKind::kAdam}, {"rmsprop", OptimizerKind::kRmsProp}};
inline const auto& names_of(OptimizerKind) { return kOptimizerNames; }

}  // namespace shoal
