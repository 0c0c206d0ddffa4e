#include "cli/gif.h"

#include <fmt/format.h>
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/runners/files.h"

namespace fs = std::filesystem;

namespace shoal::cli {
namespace {

constexpr int kMostColours = 256;
constexpr std::int64_t kShortest = 2;  // hundredths of a second; browsers slow shorter ones down

using Colours = std::vector<GifColorType>;

// Pixels as indices of colours.
struct Picture {
  Colours colours;
  std::vector<GifByteType> pixels;
};

struct Rectangle {
  int left, top, width, height;
};

GifColorType colour_at(const Image& image, std::int64_t pixel) {
  const auto* rgb = image.rgb.data() + 3 * pixel;
  return {rgb[0], rgb[1], rgb[2]};
}

// The rectangle in which two frames of one size differ; a single pixel if they are equal.
Rectangle changed(const Image& before, const Image& after) {
  int left = after.width, right = -1, top = after.height, bottom = -1;
  const auto* a = before.rgb.data();
  const auto* b = after.rgb.data();
  for (int y = 0; y < after.height; ++y)
    for (int x = 0; x < after.width; ++x, a += 3, b += 3) {
      if (std::equal(a, a + 3, b)) continue;
      left = std::min(left, x), right = std::max(right, x);
      top = std::min(top, y), bottom = y;
    }
  if (bottom < 0) return {0, 0, 1, 1};
  return {left, top, right - left + 1, bottom - top + 1};
}

Image cut(const Image& image, const Rectangle& r) {
  Image part{.height = r.height, .width = r.width, .rgb = {}};
  for (int y = r.top; y < r.top + r.height; ++y) {
    const auto first = image.rgb.begin() + 3 * (std::ptrdiff_t{y} * image.width + r.left);
    part.rgb.insert(part.rgb.end(), first, first + std::ptrdiff_t{3} * r.width);
  }
  return part;
}

// Nothing if the image has too many colours.
std::optional<Picture> exact(const Image& image) {
  Picture picture;
  std::unordered_map<std::uint32_t, GifByteType> numbers;
  const auto n = std::int64_t{image.width} * image.height;
  picture.pixels.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto colour = colour_at(image, i);
    const auto key =
        (std::uint32_t{colour.Red} << 16U) | (std::uint32_t{colour.Green} << 8U) | colour.Blue;
    const auto next = static_cast<GifByteType>(picture.colours.size());
    const auto [place, is_new] = numbers.try_emplace(key, next);
    if (is_new && picture.colours.size() == kMostColours) return {};
    if (is_new) picture.colours.push_back(colour);
    picture.pixels.push_back(place->second);
  }
  return picture;
}

Picture quantised(const Image& image) {
  const auto n = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
  std::array<std::vector<GifByteType>, 3> planes;
  for (auto& plane : planes) plane.resize(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < 3; ++c) planes[c][i] = image.rgb[3 * i + c];
  Picture picture{Colours(kMostColours), std::vector<GifByteType>(n)};
  int size = kMostColours;
  if (GifQuantizeBuffer(static_cast<unsigned>(image.width), static_cast<unsigned>(image.height),
                        &size, planes[0].data(), planes[1].data(), planes[2].data(),
                        picture.pixels.data(), picture.colours.data()) == GIF_ERROR)
    throw std::bad_alloc();
  // giflib rounds colours down to multiples of 8; the mean of a colour's pixels is nearer.
  std::array<std::array<std::uint64_t, 4>, kMostColours> sums{};
  for (std::size_t i = 0; i < n; ++i) {
    auto& sum = sums[picture.pixels[i]];
    for (std::size_t c = 0; c < 3; ++c) sum[c] += image.rgb[3 * i + c];
    ++sum[3];
  }
  for (std::size_t k = 0; k < kMostColours; ++k) {
    const auto mean = [&, count = std::max<std::uint64_t>(sums[k][3], 1)](std::size_t c) {
      return static_cast<GifByteType>((sums[k][c] + count / 2) / count);
    };
    picture.colours[k] = {mean(0), mean(1), mean(2)};
  }
  return picture;
}

class Gif : public FrameSink {
 public:
  Gif(fs::path file, double fps) : file_(std::move(file)), out_(file_), fps_(fps) {}
  // Keeps the finished part of an interrupted video.
  ~Gif() override {
    try {
      finish();
    } catch (const std::exception&) {  // its first failure has been reported
    }
    int ignored = 0;
    if (gif_ != nullptr) EGifCloseFile(gif_, &ignored);
  }

  // A frame is written when its duration is known.
  void show(const Image& image) override {
    const std::int64_t time = std::lround(100 * static_cast<double>(frames_++) / fps_);
    if (gif_ == nullptr) {
      start(image);
    } else {
      if (time - shown_ < kShortest) return;
      write(time - shown_);
      before_ = std::move(next_);
    }
    next_ = image;
    shown_ = time;
  }

  void finish() override {
    if (gif_ == nullptr) return;
    write(std::max<std::int64_t>(kShortest, std::lround(100 / fps_)));
    int error = 0;
    if (EGifCloseFile(std::exchange(gif_, nullptr), &error) == GIF_ERROR) fail(error);
    out_.write(content_);
    out_.finish();
  }

 private:
  static int append(GifFileType* gif, const GifByteType* bytes, int n) {
    static_cast<Gif*>(gif->UserData)
        ->content_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n));
    return n;
  }
  [[noreturn]] void fail(int error) const {
    const auto* text = GifErrorString(error);
    throw std::runtime_error(fmt::format("cannot write {}: {}", file_.string(),
                                         text == nullptr ? "giflib failed" : text));
  }
  void check(int status) const {
    if (status == GIF_ERROR) fail(gif_->Error);
  }

  void start(const Image& image) {
    int error = 0;
    gif_ = EGifOpen(this, append, &error);
    if (gif_ == nullptr) fail(error);
    EGifSetGifVersion(gif_, true);
    check(EGifPutScreenDesc(gif_, image.width, image.height, 8, 0, nullptr));
    constexpr std::array<unsigned char, 3> kForEver = {1, 0, 0};
    check(EGifPutExtensionLeader(gif_, APPLICATION_EXT_FUNC_CODE));
    check(EGifPutExtensionBlock(gif_, 11, "NETSCAPE2.0"));
    check(EGifPutExtensionBlock(gif_, kForEver.size(), kForEver.data()));
    check(EGifPutExtensionTrailer(gif_));
  }

  void write(std::int64_t duration) {
    const auto place =
        before_.rgb.empty() ? Rectangle{0, 0, next_.width, next_.height} : changed(before_, next_);
    const auto image = cut(next_, place);
    auto found = exact(image);
    auto picture = found ? *std::move(found) : quantised(image);
    const GraphicsControlBlock control{.DisposalMode = DISPOSE_DO_NOT,
                                       .UserInputFlag = false,
                                       .DelayTime = static_cast<int>(duration),
                                       .TransparentColor = NO_TRANSPARENT_COLOR};
    std::array<GifByteType, 4> extension{};
    EGifGCBToExtension(&control, extension.data());
    check(EGifPutExtension(gif_, GRAPHICS_EXT_FUNC_CODE, extension.size(), extension.data()));
    int size = 2;
    while (size < static_cast<int>(picture.colours.size())) size *= 2;
    picture.colours.resize(static_cast<std::size_t>(size));
    const std::unique_ptr<ColorMapObject, decltype(&GifFreeMapObject)> colours(
        GifMakeMapObject(size, picture.colours.data()), GifFreeMapObject);
    if (!colours) throw std::bad_alloc();
    check(EGifPutImageDesc(gif_, place.left, place.top, place.width, place.height, false,
                           colours.get()));
    check(EGifPutLine(gif_, picture.pixels.data(), static_cast<int>(picture.pixels.size())));
    out_.write(std::exchange(content_, {}));
  }

  fs::path file_;
  FileReplacement out_;
  double fps_;
  GifFileType* gif_ = nullptr;
  std::string content_;  // of the file, not written yet
  Image before_, next_;  // the last frame that was written, and the one that follows it
  std::int64_t frames_ = 0, shown_ = 0;  // shown_: when next_ appears, in hundredths of a second
};

}  // namespace

std::unique_ptr<FrameSink> make_gif(const fs::path& file, double fps) {
  return std::make_unique<Gif>(file, fps);
}

}  // namespace shoal::cli
