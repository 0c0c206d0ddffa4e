#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/frame_sink.h"
#include "cli/gif.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/files.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

constexpr std::array<std::string_view, 5> kEndings = {".gif", ".mp4", ".mkv", ".webm", ".mov"};

bool has_ffmpeg() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((fs::path(folder) / "ffmpeg").c_str(), X_OK) == 0) return true;
  return false;
}

// Pipes the frames to ffmpeg.
class Film : public FrameSink {
 public:
  Film(const fs::path& file, double fps)
      : file_(fs::absolute(file)), unfinished_(file_), fps_(fps) {
    // ffmpeg takes the format from the suffix.
    unfinished_.replace_filename(file_.stem().string() + ".new" + file_.extension().string());
  }
  // Keeps the finished part of an interrupted video.
  ~Film() override {
    if (pipe_ == nullptr) return;
    ::pclose(pipe_);
    std::error_code ignored;
    if (fs::exists(unfinished_, ignored)) fs::rename(unfinished_, file_, ignored);
  }

  void show(const Image& image) override {
    if (pipe_ == nullptr) start(image);
    // If ffmpeg has exited, finish() reports it.
    std::fwrite(image.rgb.data(), 1, image.rgb.size(), pipe_);
  }
  void finish() override {
    if (pipe_ == nullptr) return;
    const int status = ::pclose(std::exchange(pipe_, nullptr));
    if (status != 0) {
      std::error_code ignored;
      fs::remove(unfinished_, ignored);
      throw std::runtime_error("ffmpeg cannot write " + file_.string() + " (see its message)");
    }
    sync_file(unfinished_);
    fs::rename(unfinished_, file_);
  }

 private:
  void start(const Image& image) {
    // Most players need an even width and height.
    const auto filter = fmt::format(
        "scale=iw*{0}:ih*{0}:flags=neighbor,pad=ceil(iw/2)*2:ceil(ih/2)*2", enlargement(image));
    const auto command = fmt::format(
        "ffmpeg -loglevel error -y -f rawvideo -pix_fmt rgb24 -s {}x{} -r {} -i - -vf {} -pix_fmt "
        "yuv420p {}",
        image.width, image.height, fps_, shell_word(filter), shell_word(unfinished_.string()));
    pipe_ = ::popen(command.c_str(), "w");
    require(pipe_ != nullptr, "cannot start ffmpeg: {}", std::strerror(errno));
  }

  fs::path file_, unfinished_;
  double fps_;
  std::FILE* pipe_ = nullptr;
};

}  // namespace

std::unique_ptr<FrameSink> make_video(const fs::path& file, double fps) {
  auto ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  require(std::ranges::count(kEndings, ending) == 1,
          "--video: found '{}', expected a name ending in {}", file.string(),
          fmt::join(kEndings, ", "));
  if (ending == ".gif") return make_gif(file, fps);
  require(has_ffmpeg(),
          "--video: {} needs ffmpeg, which is not in PATH; install it, or give a name ending in "
          ".gif",
          file.string());
  std::error_code error;
  require(!fs::is_directory(file, error), "cannot write {}: it is a folder", file.string());
  const auto folder = fs::absolute(file).parent_path();
  require(::access(folder.c_str(), W_OK | X_OK) == 0, "cannot write to the folder {}: {}",
          folder.string(), std::strerror(errno));
  return std::make_unique<Film>(file, fps);
}

}  // namespace shoal::cli
