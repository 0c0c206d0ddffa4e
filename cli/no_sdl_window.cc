#include "cli/frame_sink.h"

namespace shoal::cli {

std::unique_ptr<FrameSink> make_window() { return nullptr; }

}  // namespace shoal::cli
