#include "cli/gif.h"

#include <gif_lib.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "tests/runners/temporary_folder.h"

namespace shoal::cli {
namespace {

// The pictures of a GIF as a player shows them.
struct Shown {
  std::vector<Image> images;
  std::vector<int> durations;  // hundredths of a second
};

Shown read_gif(const std::filesystem::path& file) {
  int error = 0;
  auto* gif = DGifOpenFileName(file.c_str(), &error);
  Shown shown;
  if (gif == nullptr || DGifSlurp(gif) == GIF_ERROR) return shown;
  Image canvas{.height = gif->SHeight, .width = gif->SWidth, .rgb = {}};
  canvas.rgb.resize(static_cast<std::size_t>(3 * canvas.height * canvas.width));
  for (int i = 0; i < gif->ImageCount; ++i) {
    const auto& picture = gif->SavedImages[i];
    const auto& place = picture.ImageDesc;
    for (int k = 0; k < place.Width * place.Height; ++k) {
      const auto& c = place.ColorMap->Colors[picture.RasterBits[k]];
      const int y = place.Top + k / place.Width, x = place.Left + k % place.Width;
      auto* to = canvas.rgb.data() + 3 * (y * canvas.width + x);
      to[0] = c.Red, to[1] = c.Green, to[2] = c.Blue;
    }
    GraphicsControlBlock control;
    DGifSavedExtensionToGCB(gif, i, &control);
    shown.images.push_back(canvas);
    shown.durations.push_back(control.DelayTime);
  }
  DGifCloseFile(gif, &error);
  return shown;
}

Image picture(int height, int width) {
  Image image{.height = height, .width = width, .rgb = {}};
  image.rgb.resize(static_cast<std::size_t>(3 * height * width), 255);
  return image;
}

void set_pixel(Image& image, int x, int y, std::uint8_t red, std::uint8_t green,
               std::uint8_t blue) {
  auto* to = image.rgb.data() + 3 * (y * image.width + x);
  to[0] = red, to[1] = green, to[2] = blue;
}

TEST(GifTest, PicturesOf256ColoursAreExact) {
  const TemporaryFolder folder;
  std::vector<Image> frames(4, picture(20, 30));
  for (int i = 0; i < 256; ++i)
    set_pixel(frames[1], i % 30, i / 30, static_cast<std::uint8_t>(i), 7, 9);
  set_pixel(frames[1], 29, 19, 255, 7, 9);
  for (int x = 0; x < 30; ++x)
    for (int y = 8; y < 20; ++y) set_pixel(frames[1], x, y, 17, 7, 9);
  frames[2] = frames[3] = frames[1];  // equal to the one before
  set_pixel(frames[3], 12, 3, 1, 2, 3);
  const auto gif = make_gif(folder / "x.gif", 10);
  for (const auto& frame : frames) gif->show(frame);
  gif->finish();
  const auto shown = read_gif(folder / "x.gif");
  ASSERT_EQ(shown.images.size(), frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i)
    EXPECT_TRUE(shown.images[i].rgb == frames[i].rgb) << "picture " << i;
  EXPECT_EQ(shown.durations, std::vector<int>(4, 10));
}

TEST(GifTest, PicturesOfManyColoursAreNear) {
  const TemporaryFolder folder;
  auto frame = picture(100, 100);  // a white background, and 2500 colours
  for (int y = 0; y < 50; ++y)
    for (int x = 0; x < 50; ++x)
      set_pixel(frame, x, y, static_cast<std::uint8_t>(5 * x), static_cast<std::uint8_t>(5 * y),
                90);
  const auto gif = make_gif(folder / "x.gif", 10);
  gif->show(frame);
  gif->finish();
  const auto shown = read_gif(folder / "x.gif");
  ASSERT_EQ(shown.images.size(), 1);
  const auto& rgb = shown.images[0].rgb;
  double sum = 0;
  for (std::size_t i = 0; i < rgb.size(); ++i) sum += std::abs(rgb[i] - frame.rgb[i]);
  EXPECT_LT(sum / (3 * 2500), 6);
  EXPECT_EQ(rgb.back(), 255) << "the background stays white";
}

TEST(GifTest, AHigherRateThanPlayersShowLeavesFramesOut) {
  const TemporaryFolder folder;
  const auto gif = make_gif(folder / "x.gif", 150);
  for (int i = 0; i < 150; ++i) gif->show(picture(4, 4));
  gif->finish();
  const auto shown = read_gif(folder / "x.gif");
  ASSERT_FALSE(shown.durations.empty());
  for (const int duration : shown.durations) EXPECT_GE(duration, 2);
  EXPECT_NEAR(std::accumulate(shown.durations.begin(), shown.durations.end(), 0), 100, 3);
}

TEST(GifTest, AnInterruptedVideoKeepsItsPictures) {
  const TemporaryFolder folder;
  auto gif = make_gif(folder / "x.gif", 10);
  for (int i = 0; i < 3; ++i) gif->show(picture(4, 4));
  EXPECT_FALSE(std::filesystem::exists(folder / "x.gif"));
  gif.reset();
  EXPECT_EQ(read_gif(folder / "x.gif").images.size(), 3);
}

}  // namespace
}  // namespace shoal::cli
