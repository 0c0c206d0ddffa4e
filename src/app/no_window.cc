#include "src/app/frame_sink.h"

namespace shoal::app {

std::unique_ptr<FrameSink> make_window() { return nullptr; }

}  // namespace shoal::app
