#pragma once

#include <string>
#include <vector>

namespace shoal::cli {

// "2": the first two cores that this process may use. "0-3,6": these cores. Throws Error for any
// other text, and for cores that this process may not use.
std::vector<int> parse_cores(const std::string& text);
// {0, 1, 2, 5} -> "0-2,5"
std::string cores_text(const std::vector<int>& cores);

}  // namespace shoal::cli
