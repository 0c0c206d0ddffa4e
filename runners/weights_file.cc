#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "runners/open_file.h"
#include "runners/shallow_json.h"
#include "runners/toml_limits.h"
#include "runners/weights_format.h"
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
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    default:
      throw Error("'{}' is {}, which safetensors cannot hold here", name, c10::toString(type));
  }
}

// A file of weights whose header has been read.
struct Weights {
  std::istream& in;
  nlohmann::json header = {};
  std::uint64_t begin = 0, size = 0;  // of the elements, in bytes
};

Weights open_weights(std::istream& in, std::uint64_t bytes) {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 24;
  Weights file{.in = in};
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  require(
      in.good() && bytes >= sizeof length && length <= kLargest && length <= bytes - sizeof length,
      "it is not in the format of safetensors, or is truncated");
  std::string text(length, ' ');
  in.read(text.data(), static_cast<std::streamsize>(length));
  require(in.good(), "its header cannot be read: {}", std::strerror(errno));
  try {
    file.header = shallow_json(text, 3);
  } catch (const nlohmann::json::exception&) {
    throw Error("its header is damaged");
  }
  require(file.header.is_object(), "its header is damaged");
  file.begin = sizeof length + length;
  file.size = bytes - file.begin;
  return file;
}

// A tensor like `like`, which tells what the file must hold: the header cannot ask for memory.
at::Tensor read_tensor(Weights& file, const std::string& name, const at::Tensor& like) {
  const auto described = file.header.find(name);
  require(described != file.header.end(), "it lacks '{}'", name);
  auto type = like.scalar_type();
  if (type == at::kFloat && described->is_object() &&
      described->value("dtype", nlohmann::json()) == "F16")
    type = at::kHalf;
  const nlohmann::json expected = {{"dtype", dtype_of(name, type)}, {"shape", like.sizes().vec()}};
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
  const auto bytes = static_cast<std::uint64_t>(like.numel()) * c10::elementSize(type);
  require(first <= last && last <= file.size && last - first == bytes,
          "'{}' has the bytes {} to {} of {}, expected {} bytes", name, first, last, file.size,
          bytes);
  auto tensor = at::empty(like.sizes(), type);
  file.in.seekg(static_cast<std::streamoff>(file.begin + first));
  if (tensor.nbytes() > 0)
    file.in.read(static_cast<char*>(tensor.data_ptr()),
                 static_cast<std::streamsize>(tensor.nbytes()));
  require(file.in.good(), "'{}' cannot be read: {}", name, std::strerror(errno));
  return tensor.to(like.scalar_type());
}

// Target networks are left out of a file. Those of an agent then begin as copies of its networks.
constexpr std::string_view kTarget = "target/";

NamedTensors without_targets(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors)
    if (!name.starts_with(kTarget)) all.add(name, tensor);
  return all;
}

std::string name_in(const Weights& file, const std::string& name) {
  const bool copies = name.starts_with(kTarget) && !file.header.contains(name);
  return copies ? name.substr(kTarget.size()) : name;
}

// The networks' float32 numbers as float16.
NamedTensors halved(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) {
    const bool keep = tensor.scalar_type() != at::kFloat || name.starts_with("normalizer/");
    all.add(name, keep ? tensor : tensor.detach().to(at::kHalf));
  }
  require_finite(all);
  return all;
}

}  // namespace

Config weights_config(std::istream& in, std::uint64_t size) {
  const auto file = open_weights(in, size);
  const auto metadata = file.header.value("__metadata__", nlohmann::json::object());
  require(metadata.is_object() && metadata.contains("config") && metadata["config"].is_string(),
          "it holds no settings; expected a file of `shoal export`");
  const auto text = metadata["config"].get<std::string>();
  require(text.size() <= kLargestToml, "its settings have {} bytes, expected at most {}",
          text.size(), kLargestToml);
  return parse_config(text, "config");
}

void import_weights(Agent& agent, std::istream& in, std::uint64_t size,
                    const std::set<std::string>& keep) {
  auto file = open_weights(in, size);
  const auto own = agent.parameters();
  NamedTensors read;
  for (const auto& [name, tensor] : own)
    read.add(name, keep.contains(name) ? tensor : read_tensor(file, name_in(file, name), tensor));
  for (const auto& [name, described] : file.header.items())
    require(name == "__metadata__" || own.contains(name),
            "it holds '{}', which the agent has not; use the settings that it was trained with",
            one_line(name));
  require_finite(read);
  restore_all(read, "", own);
  agent.parameters_changed();
}

Config weights_config(const std::filesystem::path& path) {
  return read_opened(path, [](auto& in, auto size) { return weights_config(in, size); });
}

void import_weights(Agent& agent, const std::filesystem::path& path,
                    const std::set<std::string>& keep) {
  read_opened(path, [&](auto& in, auto size) { import_weights(agent, in, size, keep); });
}

// The length of a JSON header, the header, and the elements. The header is padded, so that elements
// are aligned.
void export_weights(Agent& agent, const Config& config, const std::filesystem::path& file,
                    bool half) {
  const auto exact = without_targets(agent.parameters());
  const auto tensors = half ? halved(exact) : exact;
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
