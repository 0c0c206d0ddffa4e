#pragma once

#include <string>

namespace shoal::python {

// Starts the interpreter of this process, once. Afterwards no thread holds the GIL, and the
// interpreter survives forks. Throws Error if there is no Python of this version.
void start_interpreter(const std::string& python);

}  // namespace shoal::python
