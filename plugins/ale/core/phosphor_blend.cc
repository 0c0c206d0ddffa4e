// SPDX-License-Identifier: GPL-2.0-only
// In place of ALE's phosphor_blend.cpp, whose constructor computes a table of 65,536 averaged
// colours for `color_averaging`, which no environment here uses. It took most of a console's start.
#include <ale/environment/phosphor_blend.hpp>
#include <stdexcept>

namespace ale {

PhosphorBlend::PhosphorBlend(stella::OSystem* osystem) : m_osystem(osystem) {}

void PhosphorBlend::process(ALEScreen&) {
  throw std::logic_error("color_averaging is not supported");
}

}  // namespace ale
