#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "shoal/envs/env.h"

namespace shoal::cli {

// Receives the frames of an episode.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // All frames have the same size. Throws std::runtime_error if the frame cannot be written.
  virtual void show(const Image& image) = 0;
  // Called after the last frame. Throws as show() does.
  virtual void finish() {}
};

// The integer factor by which small frames are enlarged.
inline int enlargement(const Image& image) { return std::max(1, 400 / image.height); }

// A video in the format that the suffix of `file` names. .gif files are written here, others (.mp4,
// .mkv, .webm, .mov) by ffmpeg. Throws Error for another suffix, without ffmpeg, and if the file
// cannot be written.
std::unique_ptr<FrameSink> make_video(const std::filesystem::path& file, double fps);

// Draws on standard output, in colour, as large as the terminal permits.
std::unique_ptr<FrameSink> make_terminal_view();

// A desktop window. Null without a display, and if the command was built without SDL2.
std::unique_ptr<FrameSink> make_window();

// A frame as text of at most this many columns and rows. One character shows two pixels, one above
// the other. Needs a terminal with 24-bit colours.
std::string terminal_text(const Image& image, int columns, int rows);

}  // namespace shoal::cli
