#pragma once

#include <string>

namespace shoal::python {

// Starts the interpreter of this process, once. Afterwards no thread holds the GIL, and the
// interpreter survives forks. In a Python program its own interpreter is used, whatever `python`
// is. Throws Error if there is no Python of this version.
void start_interpreter(const std::string& python);

}  // namespace shoal::python
