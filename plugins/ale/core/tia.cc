// SPDX-License-Identifier: GPL-2.0-only
#include <ale/emucore/TIA.hxx>

// The portable way of painting is tested with the CMake option SHOAL_WITH_X86_KERNELS off.
#if defined(__x86_64__) && !defined(SHOAL_PORTABLE_KERNELS)
#define SHOAL_X86 1
#else
#define SHOAL_X86 0
#endif

#if SHOAL_X86
#include <immintrin.h>
#endif

#include <ale/emucore/Console.hxx>
#include <ale/emucore/Control.hxx>
#include <ale/emucore/Deserializer.hxx>
#include <ale/emucore/M6502.hxx>
#include <ale/emucore/Serializer.hxx>
#include <ale/emucore/Sound.hxx>
#include <ale/emucore/System.hxx>
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "tia_state.h"

namespace ale::stella {
namespace {

constexpr int kClocks = 228, kBlank = 68;  // of a line, and of its part before the first pixel
constexpr int kNever = 0x7fffffff;
constexpr std::uint32_t kMostInstructions = 25000;  // of a frame
constexpr std::size_t kPixels = kTiaPixels;
static_assert(kPixels == TIA::kWidth * TIA::kLines);
constexpr std::size_t kPadding = 128;  // a blank may be written beyond the last line

enum Colour { kBackground, kPlayfieldColour, kPlayer0Colour, kPlayer1Colour };
constexpr Colour kColourOf[4] = {kPlayer0Colour, kPlayer1Colour, kPlayfieldColour, kBackground};

template <class Entry, std::size_t kSize, class Make>
constexpr std::array<Entry, kSize> table(Make make) {
  std::array<Entry, kSize> entries{};
  for (std::size_t i = 0; i < kSize; ++i) entries[i] = make(i);
  return entries;
}

// Every bit `times` times.
constexpr std::uint32_t stretched(std::size_t bits, int times) {
  std::uint32_t wide = 0;
  for (int i = 0; i < 8 * times; ++i) wide |= ((bits >> (i / times)) & 1U) << i;
  return wide;
}

constexpr auto kReversed = table<std::uint8_t, 256>([](std::size_t bits) {
  unsigned reversed = 0;
  for (unsigned i = 0; i < 8; ++i) reversed |= ((bits >> i) & 1U) << (7 - i);
  return static_cast<std::uint8_t>(reversed);
});
constexpr auto kTwice =
    table<std::uint32_t, 256>([](std::size_t bits) { return stretched(bits, 2); });
constexpr auto kFourTimes =
    table<std::uint32_t, 256>([](std::size_t bits) { return stretched(bits, 4); });
// A byte of ones for every bit.
constexpr auto kSpread = table<std::uint64_t, 256>([](std::size_t bits) {
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < 8; ++i)
    if ((bits >> i) & 1U) bytes |= std::uint64_t{0xff} << (8 * i);
  return bytes;
});

// Whether writing to an address may change what is drawn: not VSYNC, WSYNC, RSYNC, the sound, most
// motions, HMCLR and what is no register.
constexpr std::uint64_t kVisible = 0x0000'1fff'ffff'ffff & ~0x0000'081b'07e0'000dULL;

// The clocks after a write at which the register changes; -1: of the playfield, see poke().
constexpr auto kDelays = table<std::int8_t, 64>([](std::size_t address) -> std::int8_t {
  switch (address) {
    case 0x01:
    case 0x0b:
    case 0x0c:
    case 0x1b:
    case 0x1c:
      return 1;
    case 0x04:
    case 0x05:
    case 0x12:
    case 0x13:
      return 8;
    case 0x0d:
    case 0x0e:
    case 0x0f:
      return -1;
    default:
      return 0;
  }
});

// Where the copies of a player or missile begin, from its position; by the lowest bits of NUSIZ.
struct Copies {
  int count, start[3];
};
constexpr Copies kCopies[8] = {{1, {0}},     {2, {0, 16}}, {2, {0, 32}},     {3, {0, 16, 32}},
                               {2, {0, 64}}, {1, {0}},     {3, {0, 32, 64}}, {1, {0}}};
constexpr int kDouble = 5, kQuadruple = 7;  // values of these bits for a wide player

constexpr int width_of_player(int copies) {
  return copies == kDouble ? 16 : copies == kQuadruple ? 32 : 8;
}

// The pixels to the right that an object moves if HMOVE is written in this cycle of a line. The
// chip gives an object `motion` ^ 8 additional clocks, one every fourth, while it is blanked; it
// moves right by 8 less these. Late in a line, fewer of them are given before the next line begins,
// which moves it to the left.
constexpr int moved(int cycle, int motion) {
  const int pulses = motion ^ 8;
  if (cycle <= 20) return 8 - std::min({pulses, 15, (70 - 3 * cycle) / 4});
  if (cycle == 75) return 8 - pulses;
  if (cycle < 55) return 0;
  return -std::max(0, pulses - (222 - 3 * cycle) / 4);
}
constexpr auto kMoved = table<std::array<std::int8_t, 16>, 76>([](std::size_t cycle) {
  return table<std::int8_t, 16>([cycle](std::size_t motion) {
    return static_cast<std::int8_t>(moved(static_cast<int>(cycle), static_cast<int>(motion)));
  });
});

// Sets the bits of `pattern`, at most 33 wide, from pixel `at` on, around the end of the line.
void put(TIA::Line& line, std::uint64_t pattern, int at) {
  const int word = at >> 6, shift = at & 63;
  line.words[static_cast<std::size_t>(word)] |= pattern << shift;
  if (shift > 31 && word < 2)
    line.words[static_cast<std::size_t>(word) + 1] |= pattern >> (64 - shift);
  line.words[0] |= line.words[2] >> 32;
  line.words[2] &= 0xffffffff;
}

TIA::Line player_line(const TIA::Shape& shape, std::uint8_t graphics) {
  const std::uint8_t bits = kReversed[graphics];
  const auto& copies = kCopies[shape.copies];
  // A wide player is drawn one pixel later.
  const std::uint64_t pattern = shape.copies == kDouble      ? std::uint64_t{kTwice[bits]} << 1
                                : shape.copies == kQuadruple ? std::uint64_t{kFourTimes[bits]} << 1
                                                             : bits;
  TIA::Line line;
  for (int i = shape.without_first; i < copies.count; ++i)
    put(line, pattern, (shape.position + copies.start[i]) % TIA::kWidth);
  return line;
}

TIA::Line missile_line(const TIA::Shape& shape) {
  TIA::Line line;
  if (shape.hidden) return line;
  const auto& copies = kCopies[shape.copies];
  for (int i = 0; i < copies.count; ++i)
    put(line, (1U << (1U << shape.size)) - 1, (shape.position + copies.start[i]) % TIA::kWidth);
  return line;
}

// `playfield`: PF0's upper half, PF1, PF2, from the lowest bit on.
TIA::Line playfield_line(std::uint32_t playfield, bool reflects) {
  const std::uint64_t left =
      (playfield & 0xff00f) | (std::uint32_t{kReversed[(playfield >> 4) & 0xff]} << 4);
  std::uint64_t right = left;
  if (reflects)
    right = (std::uint64_t{kReversed[left & 0xff]} << 12) |
            (std::uint64_t{kReversed[(left >> 8) & 0xff]} << 4) | (kReversed[left >> 16] >> 4);
  const std::uint64_t cells = left | (right << 20);
  const auto wide = [&](int byte) -> std::uint64_t {
    return kFourTimes[(cells >> (8 * byte)) & 0xff];
  };
  return {{wide(0) | (wide(1) << 32), wide(2) | (wide(3) << 32), wide(4)}};
}

// The bits of pixels from..to-1 that are in this word.
std::uint64_t range(int word, int from, int to) {
  const int low = std::clamp(from - 64 * word, 0, 64), high = std::clamp(to - 64 * word, 0, 64);
  if (low >= high) return 0;
  return (~std::uint64_t{0} >> (64 - (high - low))) << low;
}

// The objects of a line, in the order of TIA::Object (player 0, missile 0, player 1, missile 1,
// ball, playfield), and the colours to paint them with.
struct Brush {
  const TIA::Line* lines;
  const std::uint8_t* colours;
  // The playfield is before the players if it has priority. In its score mode, its halves have the
  // colours of the players, unless it has priority over something.
  bool priority, score;
};

// The pixels of three colours over the background, from behind, in a part of a line: the
// playfield's, the right player's and the left player's. The first one is last if it has priority.
struct Masks {
  std::uint64_t field, right, left;
};

__attribute__((always_inline)) inline Masks masks_of(const Brush& brush, std::size_t word) {
  constexpr std::uint64_t kLeftHalf[3] = {~std::uint64_t{0}, 0xffff, 0};
  const auto* const lines = brush.lines;
  const auto bits = [&](int object) { return lines[object].words[word]; };
  Masks masks{bits(4) | bits(5), bits(2) | bits(3), bits(0) | bits(1)};
  if (brush.score) {
    const auto in_left = bits(5) & kLeftHalf[word];
    masks.field = bits(4) & ~bits(5);
    masks.right = (masks.right & ~in_left) | (bits(5) & ~kLeftHalf[word]);
    masks.left |= in_left;
  }
  return masks;
}

// Paints pixels from..to-1 of a line.
void paint_eight(std::uint8_t* line, const Brush& brush, int from, int to) {
  constexpr std::uint64_t kAll = 0x0101010101010101;
  for (int i = from >> 3; i <= (to - 1) >> 3; ++i) {
    const auto masks = masks_of(brush, static_cast<std::size_t>(i >> 3));
    auto pixels = brush.colours[kBackground] * kAll;
    const auto over = [&](std::uint64_t mask, Colour colour) {
      const auto bits = static_cast<std::uint8_t>(mask >> (8 * (i & 7)));
      pixels ^= (pixels ^ (brush.colours[colour] * kAll)) & kSpread[bits];
    };
    if (!brush.priority) over(masks.field, kPlayfieldColour);
    over(masks.right, kPlayer1Colour);
    over(masks.left, kPlayer0Colour);
    if (brush.priority) over(masks.field, kPlayfieldColour);
    const int begin = std::max(from - 8 * i, 0), end = std::min(to - 8 * i, 8);
    if (end - begin == 8)
      std::memcpy(line + 8 * i, &pixels, 8);
    else
      std::memcpy(line + 8 * i + begin, reinterpret_cast<const char*>(&pixels) + begin,
                  static_cast<std::size_t>(end - begin));
  }
}

#if SHOAL_X86
__attribute__((target("avx512f,avx512bw"))) void paint_64(std::uint8_t* line, const Brush& brush,
                                                          int from, int to) {
  const auto wide = [&](Colour colour) __attribute__((target("avx512f,avx512bw"), always_inline)) {
    return _mm512_set1_epi8(static_cast<char>(brush.colours[colour]));
  };
  const auto field = wide(kPlayfieldColour), right = wide(kPlayer1Colour),
             left = wide(kPlayer0Colour), background = wide(kBackground);
  for (int w = from >> 6; w <= (to - 1) >> 6; ++w) {
    const auto masks = masks_of(brush, static_cast<std::size_t>(w));
    auto pixels = background;
    if (!brush.priority) pixels = _mm512_mask_mov_epi8(pixels, masks.field, field);
    pixels = _mm512_mask_mov_epi8(pixels, masks.right, right);
    pixels = _mm512_mask_mov_epi8(pixels, masks.left, left);
    if (brush.priority) pixels = _mm512_mask_mov_epi8(pixels, masks.field, field);
    _mm512_mask_storeu_epi8(line + 64 * w, range(w, from, to), pixels);
  }
}
const auto kPaint = __builtin_cpu_supports("avx512bw") ? paint_64 : paint_eight;
#else
constexpr auto kPaint = paint_eight;
#endif

int number(const Console& console, PropertyType key) {
  return std::atoi(console.properties().get(key).c_str());
}

}  // namespace

TIA::TIA(const Console& console, Settings&) : console_(console) {
  for (auto& frame : frames_) frame = std::make_unique<std::uint8_t[]>(kPixels + kPadding);
}

const char* TIA::name() const { return "TIA"; }

void TIA::reset() {
  sound_->reset();
  enabled_ = 0;
  vsync_ = vblank_ = control_ = 0;
  for (int p = 0; p < 2; ++p) {
    copies_[p] = reflected_[p] = graphics_[p] = delayed_graphics_[p] = shown_graphics_[p] =
        delays_[p] = missile_on_[p] = missile_locked_[p] = 0;
    player_[p] = missile_[p] = Shape{};
  }
  ball_on_ = delayed_ball_on_ = delays_ball_ = 0;
  ball_ = Shape{};
  reflects_ = false;
  std::ranges::fill(colours_, 0);
  playfield_ = 0;
  std::ranges::fill(motion_, 0);
  std::ranges::fill(position_, 0);
  collisions_ = 0;
  last_move_ = 0;
  blank_enabled_ = stars_ = false;
  star_counter_ = 0;
  dump_enabled_ = false;
  dump_disabled_cycle_ = 0;
  stale_ = (1U << kObjects) - 1;
  blanks_allowed_ = console_.properties().get(Emulation_HmoveBlanks) == "YES";
  colour_loss_ = console_.getFormat().compare(0, 3, "PAL") == 0;
  most_lines_ = colour_loss_ ? 342 : 290;
  frameReset();
}

void TIA::frameReset() {
  for (const auto& frame : frames_) std::fill_n(frame.get(), kPixels, std::uint8_t{0});
  pixel_ = 0;
  first_line_ = static_cast<std::uint32_t>(number(console_, Display_YStart));
  drawn_lines_ = static_cast<std::uint32_t>(number(console_, Display_Height));
  frame_height_ = std::max(drawn_lines_, 200U);
  start_offset_ = kClocks * static_cast<int>(first_line_);
  stop_offset_ = start_offset_ + kClocks * static_cast<int>(drawn_lines_);
  frame_start_ = static_cast<int>(mySystem->cycles() * 3);
  display_start_ = frame_start_ + start_offset_;
  display_stop_ = frame_start_ + stop_offset_;
  last_update_ = due_ = frame_start_;
  rest_of_line_ = kClocks;
  vsync_end_ = kNever;
  lines_of_last_frame_ = current_line_ = 0;
}

void TIA::systemCyclesReset() {
  const auto cycles = static_cast<int>(mySystem->cycles());
  sound_->adjustCycleCounter(-cycles);
  dump_disabled_cycle_ -= cycles;
  for (int* clock : {&frame_start_, &display_start_, &display_stop_, &last_update_, &vsync_end_,
                     &last_move_, &due_})
    *clock = static_cast<int>(static_cast<unsigned>(*clock) - 3U * static_cast<unsigned>(cycles));
}

void TIA::install(System& system) {
  mySystem = &system;
  mySystem->resetCycles();
  System::PageAccess access{};
  access.device = this;
  const int shift = mySystem->pageShift();
  for (int address = 0; address < 8192; address += 1 << shift)
    if ((address & 0x1080) == 0)
      mySystem->setPageAccess(static_cast<std::uint16_t>(address >> shift), access);
}

std::uint32_t TIA::scanlines() const {
  return (mySystem->cycles() * 3 - static_cast<std::uint32_t>(frame_start_)) / kClocks;
}

// ---- Frames ----

void TIA::update() {
  if (!partial_frame_) start_frame();
  partial_frame_ = true;  // until the program ends the frame
  mySystem->m6502().execute(kMostInstructions);
  advance(due_);
  current_line_ = static_cast<int>(scanlines());
  if (partial_frame_) {
    if (!greyed_) grey_out();
    greyed_ = true;
  } else {
    lines_of_last_frame_ = current_line_;
    greyed_ = false;
  }
}

void TIA::start_frame() {
  current_ = 1 - current_;
  // Some games place objects while they synchronize: the line that has begun goes on.
  const auto clocks = (mySystem->cycles() * 3 - static_cast<std::uint32_t>(frame_start_)) % kClocks;
  mySystem->resetCycles();
  frame_start_ = -static_cast<int>(clocks);
  display_start_ = frame_start_ + start_offset_;
  display_stop_ = frame_start_ + stop_offset_;
  last_update_ = due_ = display_start_;
  rest_of_line_ = kClocks;
  pixel_ = 0;
  if (colour_loss_)
    for (auto& colour : colours_)
      colour = static_cast<std::uint8_t>((colour & 0xfe) | (lines_of_last_frame_ & 1));
  greyed_ = false;
}

// Greys out the lines that an unfinished frame did not reach.
void TIA::grey_out() {
  auto* const frame = currentFrameBuffer();
  for (auto line = std::max(scanlines(), first_line_); line < drawn_lines_ + first_line_; ++line)
    for (std::uint32_t i = 0; i < kWidth; ++i) {
      auto& pixel = frame[(line - first_line_) * kWidth + i];
      pixel = static_cast<std::uint8_t>((pixel & 0x0f) >> 1);
    }
}

void TIA::advance(int clock) {
  clock = std::max(clock, due_);
  if (clock < display_start_ || last_update_ >= display_stop_ || last_update_ >= clock) return;
  clock = std::min(clock, display_stop_);
  do {
    int count = 0;
    int at = kClocks - rest_of_line_;  // clocks from the start of the line
    if (clock > last_update_ + rest_of_line_) {
      count = rest_of_line_;
      rest_of_line_ = kClocks;
      last_update_ += count;
    } else {
      count = clock - last_update_;
      rest_of_line_ -= count;
      last_update_ = clock;
    }
    if (at < kBlank) {
      const int skipped = std::min(kBlank - at, count);
      at += skipped;
      count -= skipped;
    }
    auto* const begin = currentFrameBuffer() + pixel_;
    if (count != 0) draw(at - kBlank, count);
    if (blank_enabled_ && at < kBlank + 8) {
      const int count_of_blank = kBlank + 8 - at;
      if (count_of_blank == 8) [[likely]]
        std::memset(begin, 0, 8);
      else
        std::memset(begin, 0, static_cast<std::size_t>(count_of_blank));
      if (count + at >= kBlank + 8) blank_enabled_ = false;
    }
    if (rest_of_line_ == kClocks) end_line();
  } while (last_update_ < clock);
}

void TIA::end_line() {
  if (reflects_ != ((control_ & 1) != 0)) {
    reflects_ = !reflects_;
    stale_ |= kPlayfield;
  }
  for (int p = 0; p < 2; ++p) place_player(p, false);
  if (!stars_) return;
  // A missile that is moved in the wrong moment goes on moving.
  constexpr int kSteps[4] = {18, 33, 0, 17};
  star_counter_ = (star_counter_ + 1) & 3;
  position_[2] = static_cast<std::int16_t>(position_[2] - kSteps[star_counter_]);
  if (position_[2] < 0) position_[2] = static_cast<std::int16_t>(position_[2] + kWidth);
  place_missile(0);
  stale_ |= kM0;
  if (star_counter_ == 1) missile_[0].size |= 1;
  if (star_counter_ == 2) missile_[0].hidden = 1;
}

// ---- Pixels ----

TIA::Line TIA::line_of(int object) const {
  if ((enabled_ & (1U << object)) == 0) return {};
  switch (1U << object) {
    case kP0:
      return player_line(player_[0], shown_graphics_[0]);
    case kP1:
      return player_line(player_[1], shown_graphics_[1]);
    case kM0:
      return missile_line(missile_[0]);
    case kM1:
      return missile_line(missile_[1]);
    case kBall:
      return missile_line(ball_);
    default:
      return playfield_line(playfield_, reflects_);
  }
}

void TIA::refresh_lines() {
  for (; stale_ != 0; stale_ &= stale_ - 1) {
    const int object = std::countr_zero(stale_);
    lines_[object] = line_of(object);
  }
}

void TIA::draw(int from, int count) {
  if (vblank_ & 2) {
    std::memset(currentFrameBuffer() + pixel_, 0, static_cast<std::size_t>(count));
  } else if (enabled_ == 0) {
    std::memset(currentFrameBuffer() + pixel_, colours_[kBackground],
                static_cast<std::size_t>(count));
  } else {
    if (stale_ != 0) refresh_lines();
    const int to = from + count;
    if ((enabled_ & (enabled_ - 1)) != 0) collide(from, to);
    paint(from, to);
    if ((to & 3) != 0) overshoot(from, to);
  }
  pixel_ += count;
}

void TIA::collide(int from, int to) {
  for (int w = from >> 6; w <= (to - 1) >> 6; ++w) {
    std::uint64_t once = 0, twice = 0, object[kObjects];
    for (int i = 0; i < kObjects; ++i) {
      object[i] = lines_[i].words[static_cast<std::size_t>(w)];
      twice |= once & object[i];
      once |= object[i];
    }
    twice &= range(w, from, to);
    if (twice == 0) continue;
    const auto [p0, m0, p1, m1, ball, playfield] = object;
    const auto meet = [&](std::uint64_t a, std::uint64_t b, unsigned bit) {
      if (a & b & twice) collisions_ = static_cast<std::uint16_t>(collisions_ | bit);
    };
    meet(m0, p1, 0x0001), meet(m0, p0, 0x0002), meet(m1, p0, 0x0004), meet(m1, p1, 0x0008);
    meet(p0, playfield, 0x0010), meet(p0, ball, 0x0020), meet(p1, playfield, 0x0040);
    meet(p1, ball, 0x0080), meet(m0, playfield, 0x0100), meet(m0, ball, 0x0200);
    meet(m1, playfield, 0x0400), meet(m1, ball, 0x0800), meet(ball, playfield, 0x1000);
    meet(p0, p1, 0x2000), meet(m0, m1, 0x4000);
  }
}

void TIA::paint(int from, int to) {
  const bool priority = (control_ & 4) != 0;
  const bool score = (control_ & 2) != 0 && (!priority || enabled_ == kPlayfield);
  kPaint(currentFrameBuffer() + pixel_ - from, {lines_, colours_, priority, score}, from, to);
}

namespace {

// Whether a copy of an object that is `width` pixels wide could have one of these four pixels.
bool touches(const TIA::Shape& shape, int width, int group) {
  if (shape.hidden) return false;
  const auto& copies = kCopies[shape.copies];
  for (int i = shape.without_first; i < copies.count; ++i) {
    const int into = (group + 3 - shape.position - copies.start[i] + 2 * TIA::kWidth) % TIA::kWidth;
    if (into < width + 3) return true;
  }
  return false;
}

}  // namespace

// Where the objects are few, ALE's chip draws four pixels at a time, also beyond the last one of a
// part. They are seen only if nothing is drawn there later in the frame.
void TIA::overshoot(int from, int to) {
  const int group = to & ~3;
  if (group < from) return;
  const bool score = (control_ & 2) != 0;
  const unsigned objects = enabled_ & ~kPlayfield;
  const bool single = (objects & (objects - 1)) == 0;
  if (enabled_ & kPlayfield) {
    if (objects != 0 && (score || !single || (objects & (kM0 | kM1)) != 0)) return;
  } else if (!single && objects != (kP0 | kP1) && objects != (kM0 | kM1) &&
             objects != (kBall | kM0) && objects != (kBall | kM1) && objects != (kBall | kP1)) {
    return;
  }
  for (int p = 0; p < 2; ++p) {
    // A wide player begins one pixel later.
    const int width = width_of_player(player_[p].copies), later = width > 8 ? 1 : 0;
    if ((objects & (p == 0 ? kP0 : kP1)) && touches(player_[p], width, group - later)) return;
    if ((objects & (p == 0 ? kM0 : kM1)) && touches(missile_[p], 1 << missile_[p].size, group))
      return;
  }
  if ((objects & kBall) && touches(ball_, 1 << ball_.size, group)) return;
  auto colour = colours_[kBackground];
  if ((lines_[5].words[static_cast<std::size_t>(group >> 6)] >> (group & 63)) & 1)
    colour = colours_[!score               ? kPlayfieldColour
                      : group < kWidth / 2 ? kPlayer0Colour
                                           : kPlayer1Colour];
  std::fill_n(currentFrameBuffer() + pixel_ + (to - from), group + 4 - to, colour);
}

// ---- Registers ----

std::uint8_t TIA::resistance(int controller, int pin) const {
  auto& device = console_.controller(static_cast<Controller::Jack>(controller));
  const int ohms = device.read(static_cast<Controller::AnalogPin>(pin));
  if (ohms == Controller::minimumResistance) return 0x80;
  if (ohms == Controller::maximumResistance || dump_enabled_) return 0;
  const auto needed = static_cast<std::uint32_t>(1.6 * ohms * 0.01E-6 * 1.19E6);
  return mySystem->cycles() > static_cast<std::uint32_t>(dump_disabled_cycle_) + needed ? 0x80 : 0;
}

std::uint8_t TIA::peek(std::uint16_t address) {
  const auto clock = static_cast<int>(mySystem->cycles() * 3);
  const unsigned which = address & 0x0f;
  // Bits that nothing drives keep what was on the bus.
  const auto rest = static_cast<std::uint8_t>(mySystem->getDataBusState() & 0x3f);
  if (which > 7 && !blank_enabled_)
    advance_later(clock);
  else
    advance(clock);
  const auto shown = [&](std::uint8_t bits) { return static_cast<std::uint8_t>(bits | rest); };
  switch (which) {
    case 0x08:
      return shown(resistance(Controller::Left, Controller::Nine));
    case 0x09:
      return shown(resistance(Controller::Left, Controller::Five));
    case 0x0a:
      return shown(resistance(Controller::Right, Controller::Nine));
    case 0x0b:
      return shown(resistance(Controller::Right, Controller::Five));
    case 0x0c:
      return shown(console_.controller(Controller::Left).read(Controller::Six) ? 0x80 : 0);
    case 0x0d:
      return shown(console_.controller(Controller::Right).read(Controller::Six) ? 0x80 : 0);
    case 0x0e:
    case 0x0f:
      return rest;
    case 0x06:
      return shown((collisions_ & 0x1000) ? 0x80 : 0);
    case 0x07:
      return shown(static_cast<std::uint8_t>(((collisions_ & 0x2000) ? 0x80 : 0) |
                                             ((collisions_ & 0x4000) ? 0x40 : 0)));
    default: {
      const unsigned bits = collisions_ >> (2 * which);
      return shown(static_cast<std::uint8_t>(((bits & 1) ? 0x80 : 0) | ((bits & 2) ? 0x40 : 0)));
    }
  }
}

std::uint8_t TIA::colour_of(std::uint8_t value) const {
  return static_cast<std::uint8_t>((value & 0xfe) |
                                   (colour_loss_ && (lines_of_last_frame_ & 1) ? 1 : 0));
}

void TIA::place_player(int player, bool without_first) {
  place(player_[player], player == 0 ? kP0 : kP1,
        {.position = position_[player],
         .copies = static_cast<std::uint8_t>(copies_[player] & 7),
         .without_first = without_first});
}

void TIA::place_missile(int missile) {
  place(missile_[missile], missile == 0 ? kM0 : kM1,
        {.position = position_[2 + missile],
         .copies = static_cast<std::uint8_t>(copies_[missile] & 7),
         .size = static_cast<std::uint8_t>((copies_[missile] & 0x30) >> 4)});
}

void TIA::place_ball() {
  place(ball_, kBall,
        {.position = position_[4], .size = static_cast<std::uint8_t>((control_ & 0x30) >> 4)});
}

void TIA::write_graphics() {
  constexpr unsigned kPlayers[2] = {kP0, kP1};
  for (int p = 0; p < 2; ++p) {
    const auto bits = delays_[p] ? delayed_graphics_[p] : graphics_[p];
    const auto shown = reflected_[p] ? kReversed[bits] : bits;
    if (shown != shown_graphics_[p]) stale_ |= kPlayers[p];
    shown_graphics_[p] = shown;
    enable(kPlayers[p], shown != 0);
  }
  enable(kBall, (delays_ball_ ? delayed_ball_on_ : ball_on_) != 0);
  for (int m = 0; m < 2; ++m)
    enable(m == 0 ? kM0 : kM1, missile_on_[m] != 0 && missile_locked_[m] == 0);
}

void TIA::reset_player(int player, int clock) {
  const int at = position_in_line(clock);
  const int place = at < kBlank ? 3 : (at - kBlank + 5) % kWidth;
  const int mode = copies_[player] & 7, width = width_of_player(mode);
  bool delayed = false, displayed = false;
  for (int i = 0; i < kCopies[mode].count; ++i) {
    const int into = (place - position_[player] - kCopies[mode].start[i] + 2 * kWidth) % kWidth;
    delayed |= into < 4;
    displayed |= into >= 4 && into < 4 + width;
  }
  if (displayed) advance(clock + 11);  // the copy that has begun is drawn where it was
  position_[player] = static_cast<std::int16_t>(place);
  place_player(player, displayed || !delayed);
}

// Some games reset an object just after HMOVE, and rely on where it is then.
void TIA::reset_missile(int missile, int clock) {
  const int at = position_in_line(clock), since = clock - last_move_;
  int place = at < kBlank ? 2 : (at - kBlank + 4) % kWidth;
  if (missile == 0 && since == 20 * 3 && at == 69) place = 8;
  if (missile == 1 && since == 3 * 3 && at == 18) place = 3;
  position_[2 + missile] = static_cast<std::int16_t>(place);
  place_missile(missile);
}

void TIA::reset_ball(int clock) {
  const int at = position_in_line(clock), since = clock - last_move_;
  int place = at < kBlank ? 2 : (at - kBlank + 4) % kWidth;
  if (since == 18 * 3 && (at == 60 || at == 69))
    place = 10;
  else if (since == 3 * 3 && at == 18)
    place = 3;
  else if (since == 7 * 3 && at == 30)
    place = 6;
  else if (since == 6 * 3 && at == 27)
    place = 5;
  position_[4] = static_cast<std::int16_t>(place);
  place_ball();
}

void TIA::move_all(int clock) {
  const auto cycle = static_cast<std::size_t>(position_in_line(clock) / 3);
  if (blanks_allowed_ && (cycle <= 20 || cycle == 75)) blank_enabled_ = true;
  const auto& moved = kMoved[cycle];
  for (int i = 0; i < 5; ++i) {
    const int by = moved[static_cast<std::size_t>(motion_[i])];
    if (by == 0) continue;
    int place = position_[i] + by;
    if (place >= kWidth) place -= kWidth;
    if (place < 0) place += kWidth;
    position_[i] = static_cast<std::int16_t>(place);
  }
  for (int p = 0; p < 2; ++p) {
    place_player(p, false);
    place_missile(p);
  }
  place_ball();
  last_move_ = clock;
  stars_ = false;
}

void TIA::unlock_missile(int missile, std::uint8_t value) {
  if (missile_locked_[missile] && !(value & 2)) {
    const int width = width_of_player(copies_[missile] & 7);
    const int middle = width == 8 ? 4 : width / 2;
    position_[2 + missile] = static_cast<std::int16_t>((position_[missile] + middle) % kWidth);
    place_missile(missile);
  }
  missile_locked_[missile] = value & 2;
}

template <int address>
void TIA::write(std::uint8_t value) {
  const auto clock = static_cast<int>(mySystem->cycles() * 3);
  int delay = kDelays[address];
  if constexpr (kDelays[address] < 0) {
    constexpr int kOfPlayfield[4] = {4, 5, 2, 3};
    delay = kOfPlayfield[(position_in_line(clock) / 3) & 3];
  }
  std::uint32_t field = playfield_;

  // Whether what is drawn next changes.
  bool visible = ((kVisible >> address) & 1) != 0;
  bool same = false;  // nothing at all changes
  switch (address) {
    case 0x01:
      visible = ((value ^ vblank_) & 2) != 0;
      break;
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09:
      same = colour_of(value) == colours_[kColourOf[address - 0x06]];
      break;
    case 0x0d:
      field = (field & 0xffff0) | (value >> 4);
      same = field == playfield_;
      break;
    case 0x0e:
      field = (field & 0xff00f) | (std::uint32_t{value} << 4);
      same = field == playfield_;
      break;
    case 0x0f:
      field = (field & 0x00fff) | (std::uint32_t{value} << 12);
      same = field == playfield_;
      break;
    case 0x1b:
      same = value == graphics_[0] && delayed_graphics_[1] == graphics_[1];
      break;
    case 0x1c:
      same = value == graphics_[1] && delayed_graphics_[0] == graphics_[0] &&
             delayed_ball_on_ == ball_on_;
      break;
    case 0x1d:
    case 0x1e:
      same = (value & 2) == missile_on_[address - 0x1d];
      break;
    case 0x1f:
      same = (value & 2) == ball_on_;
      break;
    default:
      break;
  }
  if ((visible && !same) || blank_enabled_)
    advance(clock + delay);
  else
    advance_later(clock + delay);

  if (clock - frame_start_ >= kClocks * (most_lines_ + 1)) {
    mySystem->m6502().stop();
    partial_frame_ = false;
  }
  if (same) return;
  switch (address) {
    case 0x00:
      vsync_ = value;
      if (value & 2) {
        vsync_end_ = clock + kClocks;
      } else if (clock >= vsync_end_) {
        vsync_end_ = kNever;
        mySystem->m6502().stop();
        partial_frame_ = false;
      }
      break;
    case 0x01:
      if (!(vblank_ & 0x80) && (value & 0x80)) dump_enabled_ = true;
      if ((vblank_ & 0x80) && !(value & 0x80)) {
        dump_enabled_ = false;
        dump_disabled_cycle_ = static_cast<int>(mySystem->cycles());
      }
      vblank_ = value;
      break;
    case 0x02:
      // The processor halts when it reads next.
      if (mySystem->m6502().lastAccessWasRead()) {
        const std::uint32_t rest =
            76 - (mySystem->cycles() - static_cast<std::uint32_t>(frame_start_ / 3)) % 76;
        if (rest < 76) mySystem->incrementCycles(rest);
      }
      break;
    case 0x04:
    case 0x05:
      copies_[address - 0x04] = value;
      place_player(address - 0x04, false);
      place_missile(address - 0x04);
      break;
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09:
      colours_[kColourOf[address - 0x06]] = colour_of(value);
      break;
    case 0x0a:
      control_ = value;
      if (position_in_line(clock) < kBlank + 79) {
        reflects_ = (value & 1) != 0;
        stale_ |= kPlayfield;
      }
      place_ball();
      break;
    case 0x0b:
    case 0x0c: {
      const int p = address - 0x0b;
      // Reflects what is shown, whatever it was made from.
      if (((value & 8) != 0) != (reflected_[p] != 0)) {
        reflected_[p] = value & 8;
        shown_graphics_[p] = kReversed[shown_graphics_[p]];
        stale_ |= p == 0 ? kP0 : kP1;
      }
      break;
    }
    case 0x0d:
    case 0x0e:
    case 0x0f:
      stale_ |= kPlayfield;
      playfield_ = field;
      enable(kPlayfield, field != 0);
      break;
    case 0x10:
    case 0x11:
      reset_player(address - 0x10, clock);
      break;
    case 0x12:
    case 0x13:
      reset_missile(address - 0x12, clock);
      break;
    case 0x14:
      reset_ball(clock);
      break;
    case 0x15:
    case 0x16:
    case 0x17:
    case 0x18:
    case 0x19:
    case 0x1a:
      sound_->set(address, value, static_cast<int>(mySystem->cycles()));
      break;
    case 0x1b:
      graphics_[0] = value;
      delayed_graphics_[1] = graphics_[1];
      write_graphics();
      break;
    case 0x1c:
      graphics_[1] = value;
      delayed_graphics_[0] = graphics_[0];
      delayed_ball_on_ = ball_on_;
      write_graphics();
      break;
    case 0x1d:
    case 0x1e:
      missile_on_[address - 0x1d] = value & 2;
      write_graphics();
      break;
    case 0x1f:
      ball_on_ = value & 2;
      write_graphics();
      break;
    case 0x20:
      motion_[0] = static_cast<std::int8_t>(value >> 4);
      break;
    case 0x21:
      motion_[1] = static_cast<std::int8_t>(value >> 4);
      break;
    case 0x22:
      // A change at this very cycle sets the missile going: the stars of Cosmic Ark.
      if (clock == last_move_ + 21 * 3 && motion_[2] == 7 && value >> 4 == 6) {
        stars_ = true;
        star_counter_ = 0;
      }
      motion_[2] = static_cast<std::int8_t>(value >> 4);
      break;
    case 0x23:
      motion_[3] = static_cast<std::int8_t>(value >> 4);
      break;
    case 0x24:
      motion_[4] = static_cast<std::int8_t>(value >> 4);
      break;
    case 0x25:
    case 0x26:
      delays_[address - 0x25] = value & 1;
      write_graphics();
      break;
    case 0x27:
      delays_ball_ = value & 1;
      write_graphics();
      break;
    case 0x28:
    case 0x29:
      unlock_missile(address - 0x28, value);
      write_graphics();
      break;
    case 0x2a:
      move_all(clock);
      break;
    case 0x2b:
      std::ranges::fill(motion_, 0);
      break;
    case 0x2c:
      collisions_ = 0;
      break;
    default:
      break;
  }
}

namespace {

template <int... kAddresses>
constexpr auto writes(std::integer_sequence<int, kAddresses...>) {
  return std::array{&TIA::write<kAddresses>...};
}

}  // namespace

void TIA::poke(std::uint16_t address, std::uint8_t value) {
  static constexpr auto kWrites = writes(std::make_integer_sequence<int, kRegisters>());
  (this->*kWrites[address % kRegisters])(value);
}

// ---- Saved states, in ALE's order ----

bool TIA::save(Serializer& out) {
  advance(due_);
  const auto wide = [](std::uint8_t colour) { return static_cast<int>(colour * 0x01010101U); };
  const auto put_all = [&](std::initializer_list<int> numbers) {
    for (const int each : numbers) out.putInt(each);
  };
  const auto put_flags = [&](std::initializer_list<bool> flags) {
    for (const bool each : flags) out.putBool(each);
  };
  out.putString(name());
  put_all({frame_start_, display_start_, display_stop_, last_update_, rest_of_line_,
           lines_of_last_frame_, current_line_, vsync_end_, static_cast<int>(enabled_), vsync_,
           vblank_, copies_[0], copies_[1], wide(colours_[2]), wide(colours_[3]), wide(colours_[1]),
           wide(colours_[0]), control_, (control_ & 6) << 5});
  put_flags({reflected_[0] != 0, reflected_[1] != 0});
  put_all({static_cast<int>(playfield_), graphics_[0], graphics_[1], delayed_graphics_[0],
           delayed_graphics_[1]});
  put_flags({missile_on_[0] != 0, missile_on_[1] != 0, ball_on_ != 0, delayed_ball_on_ != 0});
  put_all({motion_[0], motion_[1], motion_[2], motion_[3], motion_[4]});
  put_flags({delays_[0] != 0, delays_[1] != 0, delays_ball_ != 0, missile_locked_[0] != 0,
             missile_locked_[1] != 0});
  put_all({collisions_, position_[0], position_[1], position_[2], position_[3], position_[4],
           shown_graphics_[0], shown_graphics_[1], last_move_});
  put_flags({blank_enabled_, stars_});
  out.putInt(static_cast<int>(star_counter_));
  out.putBool(dump_enabled_);
  out.putInt(dump_disabled_cycle_);
  sound_->save(out);
  return true;
}

bool TIA::load(Deserializer& in) {
  if (in.getString() != name()) return false;
  const auto byte = [&] { return static_cast<std::uint8_t>(in.getInt()); };
  for (int* clock : {&frame_start_, &display_start_, &display_stop_, &last_update_, &rest_of_line_,
                     &lines_of_last_frame_, &current_line_, &vsync_end_})
    *clock = in.getInt();
  enabled_ = byte();
  for (auto* to : {&vsync_, &vblank_, &copies_[0], &copies_[1], &colours_[2], &colours_[3],
                   &colours_[1], &colours_[0], &control_})
    *to = byte();
  in.getInt();  // priority and score: bits of control_
  for (auto& each : reflected_) each = in.getBool() ? 8 : 0;
  playfield_ = static_cast<std::uint32_t>(in.getInt());
  for (auto* to : {&graphics_[0], &graphics_[1], &delayed_graphics_[0], &delayed_graphics_[1]})
    *to = byte();
  for (auto* to : {&missile_on_[0], &missile_on_[1], &ball_on_, &delayed_ball_on_})
    *to = in.getBool() ? 2 : 0;
  for (auto& each : motion_) each = static_cast<std::int8_t>(in.getInt());
  for (auto* to : {&delays_[0], &delays_[1], &delays_ball_}) *to = in.getBool() ? 1 : 0;
  for (auto& each : missile_locked_) each = in.getBool() ? 2 : 0;
  collisions_ = static_cast<std::uint16_t>(in.getInt());
  for (auto& each : position_) each = static_cast<std::int16_t>(in.getInt());
  for (auto& each : shown_graphics_) each = byte();
  last_move_ = in.getInt();
  blank_enabled_ = in.getBool();
  stars_ = in.getBool();
  star_counter_ = static_cast<std::uint32_t>(in.getInt());
  dump_enabled_ = in.getBool();
  dump_disabled_cycle_ = in.getInt();
  sound_->load(in);
  due_ = last_update_;
  stale_ = (1U << kObjects) - 1;
  return true;
}

namespace {

// ALE's chip has a table of the pixels of each kind of object at each position, and its state holds
// indices into them: [position % 4][kind][two lines], from the place for the other part of the
// position on.
std::int32_t table_index(const TIA::Shape& shape, int kinds, int kind) {
  constexpr int kTwoLines = 2 * TIA::kWidth;
  return ((shape.position & 3) * kinds + kind) * kTwoLines + TIA::kWidth - (shape.position & ~3);
}

// Sets the position, and returns the kind.
int from_table_index(std::int32_t index, int kinds, TIA::Shape& shape) {
  constexpr int kTwoLines = 2 * TIA::kWidth;
  const int aligned = index / kTwoLines / kinds;
  const int position = TIA::kWidth - index % kTwoLines + aligned;
  if (index < 0 || aligned > 3 || position < 0 || position >= TIA::kWidth)
    throw std::runtime_error("invalid saved state");
  shape.position = static_cast<std::int16_t>(position);
  return index / kTwoLines % kinds;
}

}  // namespace

void TIA::save_rest(TiaState& rest) {
  advance(due_);
  const auto player = [](const Shape& s) {
    return table_index(s, 16, s.without_first * 8 + s.copies);
  };
  const auto missile = [](const Shape& s) {
    return s.hidden ? -1 : table_index(s, 32, s.copies * 4 + s.size);
  };
  rest.player0 = player(player_[0]);
  rest.player1 = player(player_[1]);
  rest.missile0 = missile(missile_[0]);
  rest.missile1 = missile(missile_[1]);
  rest.ball = table_index(ball_, 4, ball_.size);
  rest.playfield = reflects_ ? kWidth : 0;
  rest.frame_position = pixel_;
  rest.partial_frame = partial_frame_;
  std::memcpy(rest.current, currentFrameBuffer(), kPixels);
  std::memcpy(rest.previous, previousFrameBuffer(), kPixels);
}

// Checks the registers that load() has read, because ALE ignores what load() returns. Throws if one
// of them would make the chip draw outside a line or a frame.
void TIA::require_valid_registers(std::int32_t pixel) const {
  const auto in_line = [](int position) { return position >= 0 && position < kWidth; };
  const auto in_table = [](int motion) { return motion >= 0 && motion < 16; };
  const bool valid = std::ranges::all_of(position_, in_line) &&
                     std::ranges::all_of(motion_, in_table) && enabled_ < (1U << kObjects) &&
                     rest_of_line_ >= 0 && rest_of_line_ <= kClocks &&
                     display_start_ == frame_start_ + start_offset_ &&
                     display_stop_ == frame_start_ + stop_offset_ && pixel >= 0;
  const auto lines = std::max(0, display_stop_ - last_update_) / kClocks + 1;
  if (!valid || pixel + std::int64_t{lines} * kWidth > static_cast<std::int64_t>(kPixels))
    throw std::runtime_error("invalid saved state");
}

void TIA::load_rest(const TiaState& rest) {
  const auto player = [](std::int32_t index) {
    Shape shape;
    const int kind = from_table_index(index, 16, shape);
    shape.without_first = static_cast<std::uint8_t>(kind / 8);
    shape.copies = static_cast<std::uint8_t>(kind % 8);
    return shape;
  };
  const auto missile = [](std::int32_t index) {
    Shape shape;
    const int kind = from_table_index(index, 32, shape);
    shape.copies = static_cast<std::uint8_t>(kind / 4);
    shape.size = static_cast<std::uint8_t>(kind % 4);
    return shape;
  };
  const Shape player0 = player(rest.player0), player1 = player(rest.player1),
              missile0 = rest.missile0 == -1 ? Shape{.hidden = 1} : missile(rest.missile0),
              missile1 = missile(rest.missile1);
  Shape ball;
  ball.size = static_cast<std::uint8_t>(from_table_index(rest.ball, 4, ball));
  require_valid_registers(rest.frame_position);
  if (rest.playfield != 0 && rest.playfield != kWidth)
    throw std::runtime_error("invalid saved state");
  player_[0] = player0, player_[1] = player1;
  missile_[0] = missile0, missile_[1] = missile1;
  ball_ = ball;
  reflects_ = rest.playfield != 0;
  pixel_ = rest.frame_position;
  due_ = last_update_;
  partial_frame_ = rest.partial_frame != 0;
  std::memcpy(currentFrameBuffer(), rest.current, kPixels);
  std::memcpy(previousFrameBuffer(), rest.previous, kPixels);
  stale_ = (1U << kObjects) - 1;
}

}  // namespace ale::stella

void save_tia(ale::stella::TIA& tia, TiaState& state) { tia.save_rest(state); }
void load_tia(ale::stella::TIA& tia, TiaState& state) { tia.load_rest(state); }
