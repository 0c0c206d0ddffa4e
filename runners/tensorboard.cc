#include "runners/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

#include "shoal/core/error.h"

namespace shoal {
namespace {

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog, from TensorFlow's
// event.proto and summary.proto.
enum EventField : protozero::pbf_tag_type {
  kWallTime = 1,
  kStep = 2,
  kVersion = 3,
  kSummary = 5,
  kSessionLog = 7
};
constexpr protozero::pbf_tag_type kValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1;
// The fields of a text, which is a tensor for the plugin `text`.
constexpr protozero::pbf_tag_type kTensor = 8, kMetadata = 9, kPluginData = 1, kPluginName = 1,
                                  kDtype = 1, kTensorShape = 2, kDim = 2, kSize = 1,
                                  kStringValue = 8;
constexpr int kString = 7;  // DataType
constexpr int kStart = 1;   // SessionLog: later events of an earlier process are obsolete

// The masked CRC of TFRecord: a checksum is stored beside its data, so that a checksum of both must
// stay meaningful.
std::uint32_t masked_crc(const char* bytes, std::size_t n) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes, n);
  const auto sum = static_cast<std::uint32_t>(crc.checksum());
  return ((sum >> 15) | (sum << 17)) + 0xA282EAD8U;
}

// TensorBoard shows tags with the same word before a slash as one group.
std::string tag_of(const std::string& column) {
  const auto begins = [&](const auto&... words) { return (column.starts_with(words) || ...); };
  if (begins("eval_")) return "eval/" + column.substr(std::string_view("eval_").size());
  if (begins("return_", "length_", "discounted_", "nonzero_rewards_", "info_") ||
      column == "episodes")
    return "rollout/" + column;
  if (begins("share_") || column == "seconds" || column == "sps") return "time/" + column;
  return "train/" + column;
}

// The settings as Markdown.
std::string text_value(const std::string& settings) {
  std::string plugin, metadata, dim, shape, tensor, value;
  protozero::pbf_writer(plugin).add_string(kPluginName, "text");
  protozero::pbf_writer(metadata).add_message(kPluginData, plugin);
  protozero::pbf_writer(dim).add_int64(kSize, 1);
  protozero::pbf_writer(shape).add_message(kDim, dim);
  protozero::pbf_writer to_tensor(tensor);
  to_tensor.add_enum(kDtype, kString);
  to_tensor.add_message(kTensorShape, shape);
  to_tensor.add_string(kStringValue, "```toml\n" + settings + "\n```");
  protozero::pbf_writer writer(value);
  writer.add_string(kTag, "settings");
  writer.add_message(kTensor, tensor);
  writer.add_message(kMetadata, metadata);
  return value;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class TensorBoard : public LogSink {
 public:
  TensorBoard(const std::filesystem::path& folder, std::int64_t from_steps,
              const std::string& settings) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    // The name pattern that TensorBoard reads; the process id separates files of the same second.
    file_ =
        folder / fmt::format("events.out.tfevents.{:.0f}.{}.{}", now(), host.data(), ::getpid());
    out_.open(file_, std::ios::binary);
    write_event(0, [](auto& event) { event.add_string(kVersion, "brain.Event:2"); });
    if (from_steps > 0) {
      std::string log;
      protozero::pbf_writer(log).add_enum(kStatus, kStart);
      write_event(from_steps + 1, [&](auto& event) { event.add_message(kSessionLog, log); });
    }
    if (settings.empty()) return;
    std::string summary;
    protozero::pbf_writer(summary).add_message(kValue, text_value(settings));
    write_event(from_steps, [&](auto& event) { event.add_message(kSummary, summary); });
  }

  void write(const LogRow& row) override {
    std::string summary;
    protozero::pbf_writer values(summary);
    for (const auto& [name, number] : row.numbers) {
      if (std::isnan(number)) continue;
      std::string value;
      protozero::pbf_writer writer(value);
      writer.add_string(kTag, tag_of(name));
      writer.add_float(kSimpleValue, static_cast<float>(number));
      values.add_message(kValue, value);
    }
    write_event(row.steps, [&](auto& event) { event.add_message(kSummary, summary); });
  }

 private:
  template <class Fill>
  void write_event(std::int64_t step, Fill fill) {
    std::string event;
    protozero::pbf_writer writer(event);
    writer.add_double(kWallTime, now());
    writer.add_int64(kStep, step);
    fill(writer);
    const std::uint64_t size = event.size();
    std::array<char, sizeof size> length;
    std::memcpy(length.data(), &size, sizeof size);
    append(length.data(), length.size());
    append(event.data(), event.size());
    out_.flush();  // a reader sees complete records only
    require(out_.good(), "cannot write {}: {}", file_.string(), std::strerror(errno));
  }
  void append(const char* bytes, std::size_t n) {
    const auto crc = masked_crc(bytes, n);
    out_.write(bytes, static_cast<std::streamsize>(n));
    out_.write(reinterpret_cast<const char*>(&crc), sizeof crc);
  }

  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace

std::unique_ptr<LogSink> make_tensorboard(const std::filesystem::path& folder,
                                          std::int64_t from_steps, const std::string& settings) {
  return std::make_unique<TensorBoard>(folder, from_steps, settings);
}

}  // namespace shoal
