#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "shoal/agents/agent.h"
#include "shoal/core/error.h"
#include "shoal/runners/export.h"
#include "shoal/runners/files.h"
#include "shoal/runners/version.h"

namespace shoal {
namespace {

std::string dtype_of(const std::string& name, at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "F32";
    case at::kDouble:
      return "F64";
    case at::kLong:
      return "I64";
    case at::kInt:
      return "I32";
    case at::kByte:
      return "U8";
    case at::kBool:
      return "BOOL";
    case at::kBFloat16:
      return "BF16";
    default:
      throw Error("'{}' is {}, which safetensors cannot hold here", name, c10::toString(type));
  }
}

}  // namespace

// The length of a JSON header, the header, and the elements. The header is padded, so that elements
// are aligned.
void export_weights(Agent& agent, const Config& config, const std::filesystem::path& file) {
  const auto tensors = agent.parameters();
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"shoal", kVersion}, {"config", write_config(config)}};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", dtype_of(name, tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  auto text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  FileReplacement replacement(file);
  replacement.write({reinterpret_cast<const char*>(&length), sizeof length});
  replacement.write(text);
  for (const auto& [name, tensor] : tensors) {
    const auto elements = tensor.detach().cpu().contiguous();
    if (elements.nbytes() > 0)
      replacement.write({static_cast<const char*>(elements.const_data_ptr()), elements.nbytes()});
  }
  replacement.finish();
}

}  // namespace shoal
