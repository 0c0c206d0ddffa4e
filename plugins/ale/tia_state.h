// SPDX-License-Identifier: MIT
//
// Completes ALE's saved states, which omit part of the video chip: the current shapes of the
// objects, and the two frame buffers. In most games the next frame overwrites all of it; in some
// (Q*bert) a restored game would diverge.
#ifndef SHOAL_PLUGINS_ALE_TIA_STATE_H_
#define SHOAL_PLUGINS_ALE_TIA_STATE_H_

#include <cstddef>
#include <cstdint>

namespace ale::stella {
class TIA;
}

constexpr std::size_t kTiaPixels = 160 * 300;  // of one frame buffer, as ALE allocates it

struct TiaState {
  std::int32_t ball, missile0, missile1, player0, player1,
      playfield;  // indices into the chip's tables of shapes
  std::int32_t frame_position;
  std::int32_t partial_frame;
  std::uint8_t current[kTiaPixels], previous[kTiaPixels];
};

constexpr std::size_t kTiaNumbers = offsetof(TiaState, current);  // bytes before the frames

void save_tia(ale::stella::TIA& tia, TiaState& state);
// Throws std::runtime_error, and does not change the chip, for an invalid state. Consumes the
// state.
void load_tia(ale::stella::TIA& tia, TiaState& state);

#endif  // SHOAL_PLUGINS_ALE_TIA_STATE_H_
