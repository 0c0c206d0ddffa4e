#include "shoal/runners/checkpoint.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <unistd.h>

#include <boost/crc.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "shoal/core/error.h"

namespace shoal {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "SHOALCK1";
constexpr std::size_t kFrame = kMagic.size() + sizeof(std::uint64_t) + sizeof(std::uint32_t);
constexpr at::ScalarType kTypes[] = {at::kByte,  at::kBool,   at::kInt,     at::kLong,
                                     at::kFloat, at::kDouble, at::kBFloat16};

std::uint32_t crc_of(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
T number_at(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

at::ScalarType type_of(const std::string& name) {
  for (const auto type : kTypes)
    if (name == c10::toString(type)) return type;
  throw Error("unknown element type '{}'", name);
}

// A file descriptor that is closed on every path.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    require(fd_ >= 0, "cannot open {}: {}", path, std::strerror(errno));
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(std::string_view rest) {
    while (!rest.empty()) {
      const auto n = ::write(fd_, rest.data(), rest.size());
      require(n >= 0 || errno == EINTR, "cannot write {}: {}", path_, std::strerror(errno));
      if (n > 0) rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void sync() {
    const bool done = ::fsync(fd_) == 0 || errno == EINVAL;  // a pipe cannot
    require(done, "cannot write {}: {}", path_, std::strerror(errno));
  }

 private:
  std::string path_;
  int fd_;
};

// A file that is written beside another one and then takes its place.
class Replacement {
 public:
  explicit Replacement(const std::filesystem::path& file)
      : file_(file),
        temporary_(file.string() + ".new"),
        out_(std::make_unique<Descriptor>(temporary_, O_WRONLY | O_CREAT | O_TRUNC)) {}
  ~Replacement() {
    if (out_) ::unlink(temporary_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(std::string_view bytes) { out_->write(bytes); }
  void finish() {
    out_->sync();
    require(std::rename(temporary_.c_str(), file_.c_str()) == 0, "cannot write {}: {}",
            file_.string(), std::strerror(errno));
    out_.reset();
    const auto folder = file_.parent_path();
    Descriptor(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY).sync();
  }

 private:
  std::filesystem::path file_;
  std::string temporary_;
  std::unique_ptr<Descriptor> out_;  // none: it has taken its place
};

json header_of(const Checkpoint& checkpoint) {
  json counters = json::object(), tensors = json::array();
  for (const auto& [name, value] : checkpoint.counters) counters[name] = value;
  for (const auto& [name, tensor] : checkpoint.tensors)
    tensors.push_back({{"name", name},
                       {"type", c10::toString(tensor.scalar_type())},
                       {"shape", tensor.sizes().vec()}});
  return {{"counters", counters}, {"tensors", tensors}};
}

// Takes the tensor that `entry` describes off the front of `bytes`.
at::Tensor take_tensor(const json& entry, std::string_view& bytes) {
  const auto type = type_of(entry.at("type").get<std::string>());
  auto tensor = at::empty(entry.at("shape").get<std::vector<std::int64_t>>(), type);
  require(tensor.nbytes() <= bytes.size(), "'{}' is cut short",
          entry.at("name").get<std::string>());
  if (tensor.nbytes() > 0) std::memcpy(tensor.data_ptr(), bytes.data(), tensor.nbytes());
  bytes.remove_prefix(tensor.nbytes());
  return tensor;
}

Checkpoint parse(std::string_view bytes) {
  require(bytes.size() >= kFrame && bytes.starts_with(kMagic), "it is no checkpoint, or cut short");
  const std::size_t end = bytes.size() - sizeof(std::uint32_t);
  require(number_at<std::uint32_t>(bytes, end) == crc_of(bytes.substr(0, end)),
          "its checksum is wrong: it is cut short or damaged");
  const auto length = number_at<std::uint64_t>(bytes, kMagic.size());
  bytes = bytes.substr(0, end).substr(kMagic.size() + sizeof(std::uint64_t));
  require(length <= bytes.size(), "its header is cut short");
  const auto header = json::parse(bytes.substr(0, length));
  bytes.remove_prefix(length);
  Checkpoint checkpoint;
  for (const auto& [name, value] : header.at("counters").items())
    checkpoint.counters.add(name, value.get<std::int64_t>());
  for (const auto& entry : header.at("tensors"))
    checkpoint.tensors.add(entry.at("name").get<std::string>(), take_tensor(entry, bytes));
  return checkpoint;
}

}  // namespace

void write_file(const std::filesystem::path& file, std::string_view content) {
  Replacement replacement(file);
  replacement.write(content);
  replacement.finish();
}

std::string read_file(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto type = fs::status(file, error).type();
  require(!error || type == fs::file_type::not_found, "cannot read {}: {}", file.string(),
          error.message());
  require(type == fs::file_type::regular, "there is no file {}", file.string());
  std::ifstream in(file, std::ios::binary);
  std::stringstream content;
  content << in.rdbuf();
  require(in.good() || in.eof(), "cannot read {}: {}", file.string(), std::strerror(errno));
  return std::move(content).str();
}

void sync_file(const std::filesystem::path& file) { Descriptor(file.string(), O_RDONLY).sync(); }

// Piece by piece: a large one is not held in memory twice.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint) {
  Replacement replacement(file);
  boost::crc_32_type crc;
  auto write = [&](std::string_view bytes) {
    crc.process_bytes(bytes.data(), bytes.size());
    replacement.write(bytes);
  };
  const std::string header = header_of(checkpoint).dump();
  write(kMagic);
  write(bytes_of<std::uint64_t>(header.size()));
  write(header);
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const auto elements = tensor.detach().cpu().contiguous();
    if (elements.nbytes() > 0)
      write({static_cast<const char*>(elements.const_data_ptr()), elements.nbytes()});
  }
  replacement.write(bytes_of<std::uint32_t>(crc.checksum()));
  replacement.finish();
}

Checkpoint read_checkpoint(const std::filesystem::path& file) {
  const std::string bytes = read_file(file);
  try {
    return parse(bytes);
  } catch (const std::exception& e) {
    throw Error("{} cannot be used: {}", file.string(), e.what());
  }
}

}  // namespace shoal
