#pragma once

#include <string>

namespace shoal {

class ExportedPolicy;

// The policy as an ONNX model. Throws Error if it has an operation that the export does not know.
std::string onnx(const ExportedPolicy& policy);

}  // namespace shoal
