// SPDX-License-Identifier: MIT
#include "tia_state.h"

#include <ale/emucore/TIA.hxx>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "reveal.h"

namespace {

using ale::stella::TIA;

SHOAL_REVEAL(TIA, myCurrentBLMask);
SHOAL_REVEAL(TIA, myCurrentM0Mask);
SHOAL_REVEAL(TIA, myCurrentM1Mask);
SHOAL_REVEAL(TIA, myCurrentP0Mask);
SHOAL_REVEAL(TIA, myCurrentP1Mask);
SHOAL_REVEAL(TIA, myCurrentPFMask);
SHOAL_REVEAL(TIA, myFramePointer);
SHOAL_REVEAL(TIA, myPartialFrameFlag);
SHOAL_REVEAL(TIA, myCurrentFrameBuffer);
SHOAL_REVEAL(TIA, myPreviousFrameBuffer);
SHOAL_REVEAL(TIA, ourBallMaskTable);
SHOAL_REVEAL(TIA, ourDisabledMaskTable);
SHOAL_REVEAL(TIA, ourMissleMaskTable);
SHOAL_REVEAL(TIA, ourPlayerMaskTable);
SHOAL_REVEAL(TIA, ourPlayfieldTable);

// Represents the one shape that is in no table: a missile that was switched off in mid-motion.
constexpr std::int32_t kDisabled = -1;

const std::uint8_t* disabled() { return *reveal(ourDisabledMaskTable{}); }

// Visits every shape: the chip's pointer, the table it points into, the table's size, and the
// shape's index in the state.
template <class State, class Visit>
void visit_shapes(TIA& tia, State& state, const Visit& visit) {
  const auto shape = [&](auto& pointer, auto* table, auto& place) {
    using Element = std::remove_reference_t<decltype(*pointer)>;
    visit(pointer, reinterpret_cast<Element*>(table), sizeof *table / sizeof(Element), place);
  };
  shape(tia.*reveal(myCurrentBLMask{}), reveal(ourBallMaskTable{}), state.ball);
  shape(tia.*reveal(myCurrentM0Mask{}), reveal(ourMissleMaskTable{}), state.missile0);
  shape(tia.*reveal(myCurrentM1Mask{}), reveal(ourMissleMaskTable{}), state.missile1);
  shape(tia.*reveal(myCurrentP0Mask{}), reveal(ourPlayerMaskTable{}), state.player0);
  shape(tia.*reveal(myCurrentP1Mask{}), reveal(ourPlayerMaskTable{}), state.player1);
  shape(tia.*reveal(myCurrentPFMask{}), reveal(ourPlayfieldTable{}), state.playfield);
}

void check(std::int32_t place, std::size_t end) {
  if (place < 0 || static_cast<std::size_t>(place) > end)
    throw std::runtime_error("invalid saved state");
}

}  // namespace

void save_tia(TIA& tia, TiaState& state) {
  visit_shapes(tia, state, [](auto& pointer, auto* table, std::size_t, std::int32_t& place) {
    place = static_cast<std::int32_t>(pointer - table);
  });
  if (tia.*reveal(myCurrentM0Mask{}) == disabled()) state.missile0 = kDisabled;
  const std::uint8_t* current = tia.*reveal(myCurrentFrameBuffer{});
  state.frame_position = static_cast<std::int32_t>(tia.*reveal(myFramePointer{}) - current);
  state.partial_frame = tia.*reveal(myPartialFrameFlag{}) ? 1 : 0;
  std::memcpy(state.current, current, kTiaPixels);
  std::memcpy(state.previous, tia.*reveal(myPreviousFrameBuffer{}), kTiaPixels);
}

void load_tia(TIA& tia, TiaState& state) {
  const bool no_missile0 = state.missile0 == kDisabled;
  if (no_missile0) state.missile0 = 0;
  visit_shapes(tia, state,
               [](auto&, auto*, std::size_t size, std::int32_t place) { check(place, size - 1); });
  check(state.frame_position, kTiaPixels);
  visit_shapes(tia, state, [](auto& pointer, auto* table, std::size_t, std::int32_t place) {
    pointer = table + place;
  });
  if (no_missile0) tia.*reveal(myCurrentM0Mask{}) = disabled();
  std::uint8_t* current = tia.*reveal(myCurrentFrameBuffer{});
  tia.*reveal(myFramePointer{}) = current + state.frame_position;
  tia.*reveal(myPartialFrameFlag{}) = state.partial_frame != 0;
  std::memcpy(current, state.current, kTiaPixels);
  std::memcpy(tia.*reveal(myPreviousFrameBuffer{}), state.previous, kTiaPixels);
}
