#include <cairo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "cli/frame_sink.h"
#include "shoal/core/error.h"
#include "shoal/runners/files.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

bool has_ffmpeg() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((fs::path(folder) / "ffmpeg").c_str(), X_OK) == 0) return true;
  return false;
}

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return word + "'";
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
    std::string filter = fmt::format(
        "scale=iw*{0}:ih*{0}:flags=neighbor,pad=ceil(iw/2)*2:ceil(ih/2)*2", enlargement(image));
    std::string format = "-pix_fmt yuv420p";
    if (file_.extension() == ".gif") {
      filter += ",split[a][b];[a]palettegen[p];[b][p]paletteuse";
      format.clear();
    }
    const auto command = fmt::format(
        "ffmpeg -loglevel error -y -f rawvideo -pix_fmt rgb24 -s {}x{} -r {} -i - -vf {} {} {}",
        image.width, image.height, fps_, shell_word(filter), format,
        shell_word(unfinished_.string()));
    pipe_ = ::popen(command.c_str(), "w");
    require(pipe_ != nullptr, "cannot start ffmpeg: {}", std::strerror(errno));
  }

  fs::path file_, unfinished_;
  double fps_;
  std::FILE* pipe_ = nullptr;
};

class Pictures : public FrameSink {
 public:
  explicit Pictures(fs::path folder) : folder_(std::move(folder)) {
    std::error_code error;
    fs::create_directories(folder_, error);
    require(!error, "cannot create the folder {}: {}", folder_.string(), error.message());
    for (const auto& old : fs::directory_iterator(folder_))  // frames of an earlier, longer video
      if (old.path().extension() == ".png") fs::remove(old, error);
  }

  void show(const Image& image) override {
    auto* surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, image.width, image.height);
    unsigned char* rows = cairo_image_surface_get_data(surface);
    const int stride = cairo_image_surface_get_stride(surface);
    const std::uint8_t* rgb = image.rgb.data();
    for (int y = 0; y < image.height; ++y)
      for (int x = 0; x < image.width; ++x, rgb += 3) {
        const std::uint32_t pixel = (rgb[0] << 16U) | (rgb[1] << 8U) | rgb[2];
        std::memcpy(rows + static_cast<std::ptrdiff_t>(y) * stride + 4 * x, &pixel, sizeof pixel);
      }
    cairo_surface_mark_dirty(surface);
    const auto file = folder_ / fmt::format("{:06}.png", ++count_);
    std::string png;
    const auto status = cairo_surface_write_to_png_stream(surface, append, &png);
    cairo_surface_destroy(surface);
    if (status != CAIRO_STATUS_SUCCESS)
      throw std::runtime_error(
          fmt::format("cannot draw {}: {}", file.string(), cairo_status_to_string(status)));
    write_file(file, png);
  }

 private:
  static cairo_status_t append(void* png, const unsigned char* bytes, unsigned n) {
    static_cast<std::string*>(png)->append(reinterpret_cast<const char*>(bytes), n);
    return CAIRO_STATUS_SUCCESS;
  }

  fs::path folder_;
  int count_ = 0;
};

}  // namespace

std::unique_ptr<FrameSink> make_video(const fs::path& file, double fps) {
  require(file.has_extension(), "--video: found '{}', expected a name ending in .mp4 or .gif",
          file.string());
  const auto folder = fs::absolute(file).parent_path();
  require(::access(folder.c_str(), W_OK | X_OK) == 0, "cannot write to the folder {}: {}",
          folder.string(), std::strerror(errno));
  if (has_ffmpeg()) return std::make_unique<Film>(file, fps);
  const auto pictures = file.parent_path() / (file.stem().string() + "-frames");
  fmt::print("ffmpeg not found: writing PNG files to {}, {:g} per second\n", pictures.string(),
             fps);
  return std::make_unique<Pictures>(pictures);
}

}  // namespace shoal::cli
