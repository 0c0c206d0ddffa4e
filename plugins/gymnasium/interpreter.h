#pragma once

#include <string>

namespace shoal::python {

// Starts the interpreter of this process, once; afterwards no thread holds its lock, and forks
// carry it over. Throws Error if there is no Python of this version.
void start_interpreter(const std::string& python);

}  // namespace shoal::python
