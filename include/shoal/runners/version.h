#pragma once

namespace shoal {

extern const char* const kVersion;  // "1.2.3"

}  // namespace shoal
