#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "shoal/envs/env.h"

namespace shoal::cli {

// Where the pictures of an episode go.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // All pictures are of one size. Throws std::runtime_error if it cannot take them.
  virtual void show(const Image& image) = 0;
  // After the last one; likewise.
  virtual void finish() {}
};

// How many times its size a picture is shown: small ones are enlarged pixel by pixel.
inline int enlargement(const Image& image) { return std::max(1, 400 / image.height); }

// A film, as `file` is called (.mp4, .gif, ...), made by ffmpeg; numbered PNG pictures in the
// folder <stem>-frames beside it where there is no ffmpeg, which is said. Throws Error if that
// cannot be written.
std::unique_ptr<FrameSink> make_video(const std::filesystem::path& file, double fps);

// Draws on standard output, in colour, as large as it has room.
std::unique_ptr<FrameSink> make_terminal_view();

// A window on the desktop. Null: there is none here, or the command was built without SDL2.
std::unique_ptr<FrameSink> make_window();

// A picture as text of at most so many columns and rows: a character is two pixels, one above the
// other. For terminals that know 24-bit colours.
std::string terminal_text(const Image& image, int columns, int rows);

}  // namespace shoal::cli
