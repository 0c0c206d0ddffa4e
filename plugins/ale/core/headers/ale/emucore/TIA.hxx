// SPDX-License-Identifier: GPL-2.0-only
// The console's video chip for ALE, in place of ALE's class: this folder is in the include path
// before ALE's. Registers, clocks, collisions and pixels are those of ALE's chip wherever a program
// or a picture shows them, with its deviations from the hardware; what differs is that a line is
// kept as bits, one for each of its 160 pixels, and that pixels are made when a visible register
// changes or the picture is looked at.
#ifndef SHOAL_PLUGINS_ALE_CORE_HEADERS_ALE_EMUCORE_TIA_HXX_
#define SHOAL_PLUGINS_ALE_CORE_HEADERS_ALE_EMUCORE_TIA_HXX_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ale/emucore/Device.hxx"
#include "ale/emucore/MediaSrc.hxx"

struct TiaState;

namespace ale::stella {

class Console;
class Deserializer;
class Serializer;
class Settings;
class Sound;
class System;

class TIA final : public Device, public MediaSource {
 public:
  static constexpr int kWidth = 160, kLines = 300;

  // One bit for each pixel of a line, the leftmost in the lowest bit.
  struct Line {
    std::array<std::uint64_t, 3> words{};
  };

  // Where an object is drawn: the position and copies when the chip last looked at them. `size`: of
  // a missile or the ball, as a power of two.
  struct Shape {
    std::int16_t position = 0;
    std::uint8_t copies = 0, size = 0, without_first = 0, hidden = 0;
    std::uint16_t unused = 0;  // so that two are compared in one instruction
    friend bool operator==(const Shape& a, const Shape& b) {
      return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    }
  };

  TIA(const Console& console, Settings& settings);

  const char* name() const override;
  void reset() override;
  void frameReset();
  void systemCyclesReset() override;
  void install(System& system) override;
  bool save(Serializer& out) override;
  bool load(Deserializer& in) override;
  std::uint8_t peek(std::uint16_t address) override;
  void poke(std::uint16_t address, std::uint8_t value) override;
  static constexpr int kRegisters = 64;
  // poke() to one of them.
  template <int address>
  void write(std::uint8_t value);

  // Executes one frame.
  void update() override;
  std::uint8_t* currentFrameBuffer() const override { return frames_[current_].get(); }
  std::uint8_t* previousFrameBuffer() const override { return frames_[1 - current_].get(); }
  std::uint32_t height() const override { return frame_height_; }
  std::uint32_t width() const override { return kWidth; }
  std::uint32_t scanlines() const override;
  void setSound(Sound& sound) override { sound_ = &sound; }

  // What save() and load() leave out. load_rest() throws std::runtime_error, and changes nothing,
  // for an invalid state.
  void save_rest(TiaState& rest);
  void load_rest(const TiaState& rest);

 private:
  // Bits of `enabled_`.
  enum Object : unsigned { kP0 = 1, kM0 = 2, kP1 = 4, kM1 = 8, kBall = 16, kPlayfield = 32 };
  static constexpr int kObjects = 6;

  void start_frame();
  void grey_out();
  // Emulates the beam up to this clock: at once, or when it matters.
  void advance(int clock);
  void advance_later(int clock) {
    if (clock > due_) due_ = clock;
  }
  void end_line();
  void draw(int from, int count);
  void collide(int from, int to);
  void paint(int from, int to);
  void overshoot(int from, int to);
  void require_valid_registers(std::int32_t pixel) const;
  Line line_of(int object) const;
  void refresh_lines();

  void write_graphics();
  void enable(unsigned object, bool on) {
    if (((enabled_ & object) != 0) == on) return;
    enabled_ ^= object;
    stale_ |= object;
  }
  void place(Shape& shape, unsigned object, const Shape& now) {
    if (shape == now) return;
    shape = now;
    stale_ |= object;
  }
  void place_player(int player, bool without_first);
  void place_missile(int missile);
  void place_ball();
  void reset_player(int player, int clock);
  void reset_missile(int missile, int clock);
  void reset_ball(int clock);
  void move_all(int clock);
  void unlock_missile(int missile, std::uint8_t value);
  std::uint8_t colour_of(std::uint8_t value) const;
  std::uint8_t resistance(int controller, int pin) const;
  int position_in_line(int clock) const { return (clock - frame_start_) % 228; }

  const Console& console_;
  Sound* sound_ = nullptr;

  std::unique_ptr<std::uint8_t[]> frames_[2];
  int current_ = 0;
  std::int32_t pixel_ = 0;  // of the current frame, that the beam draws next

  bool colour_loss_ = false;
  int most_lines_ = 262;
  std::uint32_t first_line_ = 0, drawn_lines_ = 0, frame_height_ = 0;

  // Clocks of the chip, three for each cycle of the processor.
  int start_offset_ = 0, stop_offset_ = 0;
  int frame_start_ = 0, display_start_ = 0, display_stop_ = 0, last_update_ = 0,
      rest_of_line_ = 228, vsync_end_ = 0x7fffffff, due_ = 0;
  int lines_of_last_frame_ = 0, current_line_ = 0;
  bool partial_frame_ = false, greyed_ = false;

  // Registers.
  unsigned enabled_ = 0;
  std::uint8_t vsync_ = 0, vblank_ = 0, control_ = 0;
  std::uint8_t copies_[2] = {}, reflected_[2] = {}, graphics_[2] = {}, delayed_graphics_[2] = {},
               shown_graphics_[2] = {}, delays_[2] = {};
  std::uint8_t missile_on_[2] = {}, missile_locked_[2] = {}, ball_on_ = 0, delayed_ball_on_ = 0,
               delays_ball_ = 0;
  std::uint8_t colours_[4] = {};  // background, playfield, player 0, player 1
  std::uint32_t playfield_ = 0;
  std::int8_t motion_[5] = {};     // player 0, player 1, missile 0, missile 1, ball
  std::int16_t position_[5] = {};  // likewise
  std::uint16_t collisions_ = 0;
  int last_move_ = 0;
  bool blanks_allowed_ = false, blank_enabled_ = false, stars_ = false;
  std::uint32_t star_counter_ = 0;
  bool dump_enabled_ = false;
  int dump_disabled_cycle_ = 0;

  // What is drawn.
  Shape player_[2], missile_[2], ball_;
  bool reflects_ = false;
  Line lines_[kObjects];   // of the enabled objects
  unsigned stale_ = 0x3f;  // lines to be made anew
};

}  // namespace ale::stella

#endif  // SHOAL_PLUGINS_ALE_CORE_HEADERS_ALE_EMUCORE_TIA_HXX_
