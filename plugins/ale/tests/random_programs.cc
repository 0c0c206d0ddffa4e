// SPDX-License-Identifier: GPL-2.0-only
// Runs random programs on ALE's console and prints, for each, a hash over the memory and the
// picture of all its frames: built once with ALE's processor and video chip, once with those of
// core/.
//
// Usage: random_programs FOLDER FIRST LAST
#include <ale/common/ColourPalette.hpp>
#include <ale/common/Log.hpp>
#include <ale/emucore/Console.hxx>
#include <ale/emucore/M6502.hxx>
#include <ale/emucore/MediaSrc.hxx>
#include <ale/emucore/OSystem.hxx>
#include <ale/emucore/Settings.hxx>
#include <ale/emucore/System.hxx>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace {

// Cartridges of one bank, and of two, four and eight. (One of 2 KB that looks like CommaVid's
// crashes ALE.)
constexpr std::array kSizes{4096, 8192, 16384, 32768};

// Instructions at random places, most of which read and write memory, the video chip, the timer,
// and the addresses that switch banks.
class Programs {
 public:
  explicit Programs(unsigned seed) : random_(seed) {}

  std::vector<std::uint8_t> cartridge() {
    std::vector<std::uint8_t> rom(kSizes[below(kSizes.size())]);
    syncs_ = below(3) == 0;
    for (at_ = 0; at_ < rom.size();) add_to(rom);
    // The vectors of every bank, where it begins.
    for (std::size_t bank = 0; bank < rom.size(); bank += 4096)
      for (const std::size_t vector : {0xffa, 0xffc, 0xffe}) put_word(rom, bank + vector, code());
    return rom;
  }

 private:
  unsigned below(std::size_t n) { return static_cast<unsigned>(random_() % n); }
  unsigned code() { return 0xf000 + below(0xfa0); }

  unsigned address() {
    switch (below(10)) {
      case 0:
      case 1:
      case 2:
        return 0x80 + below(128);  // memory
      case 3:
      case 4:
        return below(64);  // the video chip
      case 5:
        return 0x280 + below(32);  // the timer and the ports
      case 6:
        return 0x180 + below(128);  // memory by way of the stack's page
      case 7:
        return 0xfff4 + below(8);  // where banks are switched
      case 8:
        return below(0x10000);
      default:
        return code();
    }
  }

  static void put_word(std::vector<std::uint8_t>& rom, std::size_t at, unsigned word) {
    rom[at] = static_cast<std::uint8_t>(word);
    rom[at + 1] = static_cast<std::uint8_t>(word >> 8);
  }

  // Instructions that stop the processor; no byte of the code is one, since a jump may go to any.
  static bool stops(unsigned op) {
    return (op & 0x1f) == 0x12 || op == 0x02 || op == 0x22 || op == 0x42 || op == 0x62;
  }

  void put(std::vector<std::uint8_t>& rom, std::initializer_list<unsigned> bytes) {
    for (const auto byte : bytes)
      if (at_ < rom.size()) rom[at_++] = static_cast<std::uint8_t>(stops(byte) ? byte ^ 1 : byte);
  }

  void add_to(std::vector<std::uint8_t>& rom) {
    if (below(40) == 0) return put(rom, {0x85, 0x02});                    // STA WSYNC
    if (below(60) == 0) return put(rom, {0xca, 0xd0, 0xfd});              // DEX, BNE: a loop
    if (below(60) == 0) return put(rom, {0xad, 0x84, 0x02, 0xd0, 0xfb});  // waits for the timer
    if (syncs_ && below(30) == 0) return put(rom, {0xa9, 0x02, 0x85, 0x00, 0xa9, 0x00, 0x85, 0x00});
    unsigned op = 0;
    do {
      op = below(256);
      // Few breaks, decimal numbers, and instructions that no assembler knows.
    } while (stops(op) || ((op == 0x00 || op == 0x40) && below(16) != 0) ||
             ((op & 3) == 3 && below(8) != 0) || (op == 0xf8 && below(8) != 0));
    put(rom, {op});
    const unsigned column = op & 0x1f;
    if (op == 0x20 || op == 0x4c) {  // JSR, JMP
      const auto to = code();
      put(rom, {to & 0xff, to >> 8});
    } else if (column == 0x10) {  // branches
      put(rom, {below(3) == 0 ? below(256) : (below(40) - 20) & 0xff});
    } else if ((op & 15) >= 12 || column == 0x19 || column == 0x1b) {
      const auto to = address();
      put(rom, {to & 0xff, to >> 8});
    } else if (op != 0x40 && op != 0x60 && (op & 15) != 8 && (op & 15) != 10) {
      put(rom, {below(3) == 0 ? below(256) : 0x80 + below(128)});
    }
  }

  std::mt19937 random_;
  std::size_t at_ = 0;
  bool syncs_ = false;  // whether it begins new frames
};

std::uint64_t run(const std::string& file) {
  constexpr int kFrames = 60;
  ale::stella::OSystem system;
  ale::stella::Settings settings(&system);
  settings.setBool("display_screen", false);
  settings.validate();
  system.create();
  if (!system.createConsole(file)) {
    std::fprintf(stderr, "ALE makes no console of %s\n", file.c_str());
    std::exit(1);
  }
  system.colourPalette().setPalette("standard", system.console().getFormat());
  auto& console = system.console();
  std::uint64_t hash = 0;
  const auto add = [&](std::uint64_t x) {
    hash = (hash ^ x) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  };
  for (int frame = 0; frame < kFrames; ++frame) {
    auto& picture = console.mediaSource();
    picture.update();
    for (unsigned at = 0x80; at < 0x100; ++at) add(console.system().peek(at));
    add(console.system().cycles());
    const auto* const pixels = picture.currentFrameBuffer();
    for (unsigned i = 0; i < picture.width() * picture.height(); ++i) add(pixels[i]);
  }
  return hash;
}

}  // namespace

int main(int, char** arguments) {
  ale::Logger::setMode(ale::Logger::Error);
  const std::string file = std::string(arguments[1]) + "/program.bin";
  for (int seed = std::atoi(arguments[2]); seed <= std::atoi(arguments[3]); ++seed) {
    const auto rom = Programs(static_cast<unsigned>(seed)).cartridge();
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(rom.data()), static_cast<std::streamsize>(rom.size()));
    std::printf("%d %zu %016llx\n", seed, rom.size(), static_cast<unsigned long long>(run(file)));
    std::fflush(stdout);
  }
}
