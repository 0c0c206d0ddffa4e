#include "shoal/runners/checkpoint.h"

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "runners/checkpoint_format.h"
#include "runners/open_file.h"
#include "shoal/agents/agent.h"
#include "shoal/core/error.h"
#include "shoal/data/saved.h"

namespace shoal {
namespace {

using nlohmann::json;

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

json header_of(const Checkpoint& checkpoint) {
  json counters = json::object(), tensors = json::array();
  for (const auto& [name, value] : checkpoint.counters) counters[name] = value;
  for (const auto& [name, tensor] : checkpoint.tensors)
    tensors.push_back({{"name", name},
                       {"type", c10::toString(tensor.scalar_type())},
                       {"shape", tensor.sizes().vec()}});
  json header = {{"counters", counters}, {"tensors", tensors}};
  if (!checkpoint.algo.empty()) header["algo"] = checkpoint.algo;
  return header;
}

}  // namespace

// Written piece by piece, so that a large checkpoint is not in memory twice.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint) {
  FileReplacement replacement(file);
  std::uint32_t crc = 0;
  auto write = [&](std::string_view bytes) {
    crc = checksum(crc, bytes);
    replacement.write(bytes);
  };
  const std::string header = header_of(checkpoint).dump();
  require(header.size() <= kLargestHeader,
          "a checkpoint of {} tensors has a header of {} bytes, expected at most {}",
          checkpoint.tensors.size(), header.size(), kLargestHeader);
  write(kCheckpointMagic);
  write(bytes_of<std::uint64_t>(header.size()));
  write(header);
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const auto elements = tensor.detach().cpu().contiguous();
    if (elements.nbytes() > 0)
      write({static_cast<const char*>(elements.const_data_ptr()), elements.nbytes()});
  }
  replacement.write(bytes_of<std::uint32_t>(crc));
  replacement.finish();
}

Checkpoint read_checkpoint(const std::filesystem::path& file) {
  return read_opened(file, [](auto& in, auto size) { return read_checkpoint(in, size); });
}

Named<std::int64_t> read_counters(const std::filesystem::path& file) {
  return read_opened(file, [](auto& in, auto size) { return read_counters(in, size); });
}

void restore_agent(const Checkpoint& from, const std::filesystem::path& file, Agent& agent) {
  try {
    require_finite(with_prefix("agent/", from.tensors));  // before the agent changes
    restore_all(from.tensors, "agent/", agent.parameters());
  } catch (const Error& e) {
    throw Error(
        "{} does not fit the agent of the settings, or its run has diverged: {}; use the "
        "config.toml and a checkpoint of the same run",
        file.string(), e.what());
  }
  agent.parameters_changed();
}

}  // namespace shoal
