#pragma once

#include <filesystem>
#include <memory>

#include "cli/frame_sink.h"

namespace shoal::cli {

// An animated GIF that repeats for ever. Each picture stores the rectangle that has changed. A
// picture of at most 256 colours is exact; others get the 256 colours of a median cut. Players show
// at most 50 pictures a second, so at a higher rate some frames are left out.
std::unique_ptr<FrameSink> make_gif(const std::filesystem::path& file, double fps);

}  // namespace shoal::cli
