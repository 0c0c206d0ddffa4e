#include "shoal/runners/version.h"

namespace shoal {

const char* const kVersion = SHOAL_VERSION;

}  // namespace shoal
