#pragma once

namespace shoal {

// The version of the library, e.g. "1.2.3".
extern const char* const kVersion;

}  // namespace shoal
