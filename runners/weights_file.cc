#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "shoal/agents/agent.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/data/saved.h"
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

// A file of weights whose header has been read.
struct WeightsFile {
  std::ifstream in;
  nlohmann::json header;
  std::uint64_t begin = 0, size = 0;  // of the elements, in bytes
};

// Deeply nested JSON would take much memory.
nlohmann::json json_of(const std::string& text) {
  constexpr int kDeepest = 3;
  return nlohmann::json::parse(text, [](int depth, auto, const auto&) {
    require(depth <= kDeepest, "its header is damaged");
    return true;
  });
}

WeightsFile open_weights(const std::filesystem::path& path) {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 24;
  WeightsFile file{.in = std::ifstream(path, std::ios::binary), .header = {}};
  require(file.in.is_open(), "it cannot be opened: {}", std::strerror(errno));
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  std::uint64_t length = 0;
  file.in.read(reinterpret_cast<char*>(&length), sizeof length);
  require(file.in.good() && !error && length <= kLargest && length <= bytes - sizeof length,
          "it is not in the format of safetensors, or is truncated");
  std::string text(length, ' ');
  file.in.read(text.data(), static_cast<std::streamsize>(length));
  require(file.in.good(), "its header cannot be read: {}", std::strerror(errno));
  try {
    file.header = json_of(text);
  } catch (const nlohmann::json::exception&) {
    throw Error("its header is damaged");
  }
  require(file.header.is_object(), "its header is damaged");
  file.begin = sizeof length + length;
  file.size = bytes - file.begin;
  return file;
}

// The tensor of the agent tells what the file must hold; the header cannot ask for memory.
void read_tensor(WeightsFile& file, const std::string& name, const at::Tensor& to) {
  const auto described = file.header.find(name);
  require(described != file.header.end(), "it lacks '{}'", name);
  const nlohmann::json expected = {{"dtype", dtype_of(name, to.scalar_type())},
                                   {"shape", to.sizes().vec()}};
  for (const auto* key : {"dtype", "shape"})
    require(
        described->is_object() && described->contains(key) && (*described)[key] == expected[key],
        "'{}': found {}, expected {} {}", name, one_line(described->dump()), key,
        expected[key].dump());
  const auto offsets = described->value("data_offsets", nlohmann::json());
  require(offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
              offsets[1].is_number_unsigned(),
          "'{}': found {}, expected data_offsets", name, one_line(described->dump()));
  const auto first = offsets[0].get<std::uint64_t>(), last = offsets[1].get<std::uint64_t>();
  require(first <= last && last <= file.size && last - first == to.nbytes(),
          "'{}' has the bytes {} to {} of {}, expected {} bytes", name, first, last, file.size,
          to.nbytes());
  auto elements = at::empty(to.sizes(), to.scalar_type());
  file.in.seekg(static_cast<std::streamoff>(file.begin + first));
  if (elements.nbytes() > 0)
    file.in.read(static_cast<char*>(elements.data_ptr()),
                 static_cast<std::streamsize>(elements.nbytes()));
  require(file.in.good(), "'{}' cannot be read: {}", name, std::strerror(errno));
  at::NoGradGuard no_grad;
  to.copy_(elements);
}

// `read` of an opened file. Errors name the file.
template <class Read>
auto with_file(const std::filesystem::path& path, Read read) {
  try {
    auto file = open_weights(path);
    return read(file);
  } catch (const Error& e) {
    throw Error("{}: {}", path.string(), e.what());
  }
}

}  // namespace

Config weights_config(const std::filesystem::path& path) {
  return with_file(path, [&](WeightsFile& file) {
    const auto metadata = file.header.value("__metadata__", nlohmann::json::object());
    require(metadata.is_object() && metadata.contains("config") && metadata["config"].is_string(),
            "it holds no settings; expected a file of `shoal export`");
    return parse_config(metadata["config"].get<std::string>(), path.string());
  });
}

void import_weights(Agent& agent, const std::filesystem::path& path) {
  with_file(path, [&](WeightsFile& file) {
    const auto tensors = agent.parameters();
    for (const auto& [name, tensor] : tensors) read_tensor(file, name, tensor);
    require_finite(tensors);
  });
  agent.parameters_changed();
}

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
