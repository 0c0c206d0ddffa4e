#include "shoal/runners/checkpoint.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "SHOALCK1";
constexpr std::size_t kFrame = kMagic.size() + sizeof(std::uint64_t) + sizeof(std::uint32_t);
constexpr at::ScalarType kTypes[] = {at::kByte,  at::kBool,   at::kInt,     at::kLong,
                                     at::kFloat, at::kDouble, at::kBFloat16};

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::uint32_t checksum(std::uint32_t before, std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
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

std::ifstream open_file(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto type = fs::status(file, error).type();
  require(!error || type == fs::file_type::not_found, "cannot read {}: {}", file.string(),
          error.message());
  require(type == fs::file_type::regular, "there is no file {}", file.string());
  std::ifstream in(file, std::ios::binary);
  require(in.good(), "cannot read {}: {}", file.string(), std::strerror(errno));
  return in;
}

// Of which so many bytes are still to come.
struct Input {
  std::ifstream& in;
  std::uint64_t rest;

  void read(void* to, std::uint64_t n, const std::string& what) {
    require(n <= rest, "{} is cut short", what);
    in.read(static_cast<char*>(to), static_cast<std::streamsize>(n));
    require(in.good(), "{} cannot be read: {}", what, std::strerror(errno));
    rest -= n;
  }
};

// Throws Error unless the file ends with the checksum of all before.
void require_whole(Input input) {
  std::vector<char> bytes(1 << 20);
  std::uint32_t crc = 0;
  require(input.rest >= kFrame, "it is no checkpoint, or cut short");
  input.rest -= sizeof(std::uint32_t);
  while (input.rest > 0) {
    const auto n = std::min<std::uint64_t>(input.rest, bytes.size());
    input.read(bytes.data(), n, "it");
    crc = checksum(crc, {bytes.data(), n});
  }
  std::uint32_t written = 0;
  input.rest = sizeof written;
  input.read(&written, sizeof written, "it");
  require(written == crc, "its checksum is wrong: it is cut short or damaged");
  input.in.seekg(0);
}

at::Tensor read_tensor(const json& entry, Input& input) {
  const auto type = type_of(entry.at("type").get<std::string>());
  auto tensor = at::empty(entry.at("shape").get<std::vector<std::int64_t>>(), type);
  input.read(tensor.data_ptr(), tensor.nbytes(),
             fmt::format("'{}'", entry.at("name").get<std::string>()));
  return tensor;
}

// Piece by piece, as it was written. Of a whole file.
Checkpoint parse(Input input) {
  std::string magic(kMagic.size(), ' ');
  input.read(magic.data(), magic.size(), "it");
  require(magic == kMagic, "it is no checkpoint, or cut short");
  std::uint64_t length = 0;
  input.read(&length, sizeof length, "its header");
  require(length <= input.rest, "its header is cut short");
  std::string text(length, ' ');
  input.read(text.data(), length, "its header");
  const auto header = json::parse(text);
  Checkpoint checkpoint;
  for (const auto& [name, value] : header.at("counters").items())
    checkpoint.counters.add(name, value.get<std::int64_t>());
  for (const auto& entry : header.at("tensors"))
    checkpoint.tensors.add(entry.at("name").get<std::string>(), read_tensor(entry, input));
  return checkpoint;
}

}  // namespace

void write_file(const std::filesystem::path& file, std::string_view content) {
  Replacement replacement(file);
  replacement.write(content);
  replacement.finish();
}

std::string read_file(const std::filesystem::path& file) {
  const auto in = open_file(file);
  std::stringstream content;
  content << in.rdbuf();
  require(in.good() || in.eof(), "cannot read {}: {}", file.string(), std::strerror(errno));
  return std::move(content).str();
}

void sync_file(const std::filesystem::path& file) { Descriptor(file.string(), O_RDONLY).sync(); }

// Piece by piece: a large one is not held in memory twice.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint) {
  Replacement replacement(file);
  std::uint32_t crc = 0;
  auto write = [&](std::string_view bytes) {
    crc = checksum(crc, bytes);
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
  replacement.write(bytes_of<std::uint32_t>(crc));
  replacement.finish();
}

Checkpoint read_checkpoint(const std::filesystem::path& file) {
  auto in = open_file(file);
  try {
    const Input input{in, std::filesystem::file_size(file)};
    require_whole(input);
    return parse(input);
  } catch (const std::exception& e) {
    throw Error("{} cannot be used: {}", file.string(), e.what());
  }
}

}  // namespace shoal
