#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "shoal/envs/check_env.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/registry.h"
#include "shoal/envs/wrapper.h"
#include "shoal/envs/wrappers.h"
#include "src/envs/atari/area_resize.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using testing::ElementsAre, testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kHeight = 8, kWidth = 10;

std::uint8_t pixel(std::int64_t step, std::int64_t y, std::int64_t x, std::int64_t c) {
  return static_cast<std::uint8_t>(step * 7 + y * 31 + x * 5 + c * 80);
}

// A channels-last picture, a vector of the step number, a nested number, and a table of numbers.
class Fields : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t>, StepOut out) override {
    step_ = 0;
    write(out);
  }
  StepResult step(ArraysIn, StepOut out) override {
    ++step_;
    write(out);
    *out.info.as<float>(0) = static_cast<float>(step_);
    return {.terminated = step_ == 20};
  }

 private:
  void write(StepOut out) const {
    auto* picture = out.observation.as<std::uint8_t>(0);
    for (std::int64_t y = 0; y < kHeight; ++y)
      for (std::int64_t x = 0; x < kWidth; ++x)
        for (std::int64_t c = 0; c < 3; ++c) *picture++ = pixel(step_, y, x, c);
    for (int i = 0; i < 2; ++i) out.observation.as<float>(1)[i] = static_cast<float>(step_ + i);
    *out.observation.as<std::int64_t>(2) = step_ % 3;
    for (int i = 0; i < 6; ++i) out.observation.as<double>(3)[i] = step_ * 10 + i;
  }

  EnvSpec spec_{
      .id = "Fields",
      .observation = {{"picture", {.dtype = DType::kUInt8, .shape = {kHeight, kWidth, 3}}},
                      {"speed", {.shape = {2}}},
                      {"state/gear", {.dtype = DType::kInt64, .low = 0, .high = 2}},
                      {"table", {.dtype = DType::kFloat64, .shape = {2, 3}}}},
      .action = ActionSpec::discrete(2),
      .info = {{"steps", ArraySpec{}, PerEpisode::kNone}}};
  std::int64_t step_ = 0;
};

EnvFactory make_fields() {
  return [](const EnvContext&) { return std::make_unique<Fields>(); };
}

// An environment with the memory for all of its fields, after one reset and `steps` steps.
struct Played {
  explicit Played(const EnvFactory& make_env, int steps = 2) : env(make_env({})) {
    for (const auto& [name, array] : env->spec().observation)
      bytes.emplace_back(array.bytes(), std::byte{0xEE});
    for (auto& field : bytes) pointers.push_back(field.data());
    std::byte* const info_at = reinterpret_cast<std::byte*>(&info);
    const StepOut out{.observation = ArraysOut(pointers), .info = ArraysOut({&info_at, 1})};
    env->reset(1, out);
    const std::int64_t action = 0;
    const auto* const action_at = reinterpret_cast<const std::byte*>(&action);
    for (int i = 0; i < steps; ++i) env->step(ArraysIn({&action_at, 1}), out);
  }
  template <class T>
  std::vector<T> field(std::size_t i) const {
    const auto* from = reinterpret_cast<const T*>(bytes[i].data());
    return {from, from + bytes[i].size() / sizeof(T)};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, array] : env->spec().observation) all.push_back(name);
    return all;
  }
  std::unique_ptr<Env> env;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> pointers;
  float info = -1;
};

TEST(ObservationFieldsTest, OnlyTheSelectedOnesAreSeenInTheirOrder) {
  const Played played(with_observation_fields(make_fields(), {"state", "speed"}));
  EXPECT_THAT(played.names(), ElementsAre("speed", "state/gear"));
  EXPECT_THAT(played.field<float>(0), ElementsAre(2, 3));
  EXPECT_THAT(played.field<std::int64_t>(1), ElementsAre(2));
  EXPECT_EQ(played.info, 2);
  const Played last(with_observation_fields(make_fields(), {"table"}));
  EXPECT_THAT(last.field<double>(0), ElementsAre(20, 21, 22, 23, 24, 25));
  EXPECT_THAT(message_of([] { with_observation_fields(make_fields(), {"spee"})({}); }),
              HasSubstr("there is no field 'spee'; the fields are 'picture' uint8 [8, 10, 3], "));
}

TEST(ChannelsFirstTest, APictureIsTransposedAndItIsSaid) {
  const Played played(with_channels_first(make_fields()));
  const auto& spec = played.env->spec();
  EXPECT_EQ(spec.observation.at("picture").shape, (Shape{3, kHeight, kWidth}));
  EXPECT_THAT(spec.notices, ElementsAre("Fields: the observation 'picture' [8, 10, 3] is read as a "
                                        "channels-last picture, transposed to [3, 8, 10]"));
  const auto found = played.field<std::uint8_t>(0);
  auto at = found.begin();
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < kHeight; ++y)
      for (std::int64_t x = 0; x < kWidth; ++x) ASSERT_EQ(*at++, pixel(2, y, x, c));
  EXPECT_THAT(played.field<float>(1), ElementsAre(2, 3)) << "the others are as they were";
}

// An environment of one field, which writes its elements' indices.
EnvFactory make_counter(const ArraySpec& array) {
  class Counter : public Env {
   public:
    explicit Counter(const ArraySpec& array)
        : spec_{.id = "Counter", .observation = array, .action = ActionSpec::discrete(2)} {}
    const EnvSpec& spec() const override { return spec_; }
    void reset(std::optional<std::uint64_t>, StepOut out) override {
      const auto& array = spec_.observation[0];
      for (std::int64_t i = 0; i < array.count(); ++i)
        if (array.dtype == DType::kUInt8)
          out.observation.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * i % 251);
        else
          out.observation.as<float>()[i] = static_cast<float>(i);
    }
    StepResult step(ArraysIn, StepOut out) override {
      reset({}, out);
      return {};
    }

   private:
    EnvSpec spec_;
  };
  return [array](const EnvContext&) { return std::make_unique<Counter>(array); };
}

TEST(ChannelsFirstTest, RecognisesPicturesByTheirShape) {
  const auto shape = [](const Shape& found, DType dtype = DType::kUInt8) {
    const auto env = with_channels_first(make_counter({.dtype = dtype, .shape = found}))({});
    return env->spec().observation[0].shape;
  };
  EXPECT_EQ(shape({84, 84, 3}), (Shape{3, 84, 84}));
  EXPECT_EQ(shape({7, 7, 1}), (Shape{1, 7, 7}));
  EXPECT_EQ(shape({4, 84, 80, 3}), (Shape{12, 84, 80})) << "a stack of pictures";
  EXPECT_EQ(shape({20, 20, 2}, DType::kFloat32), (Shape{2, 20, 20}));
  EXPECT_EQ(shape({84, 84, 20}), (Shape{20, 84, 84}));
  EXPECT_EQ(shape({8, 8, 14}, DType::kFloat32), (Shape{14, 8, 8})) << "a board with many planes";
  for (const Shape& other :
       {Shape{3, 84, 84}, {84, 84}, {6, 6, 3}, {84, 80, 20}, {12}, {9, 9, 9}, {14, 8, 8}})
    EXPECT_EQ(shape(other), other);
  EXPECT_EQ(dynamic_cast<Wrapper*>(with_channels_first(make_cart_pole())({}).get()), nullptr)
      << "it costs nothing where it is not needed";
}

TEST(ChannelsFirstTest, AStackKeepsItsOrder) {
  const Played played(with_channels_first(make_counter({.shape = {2, 7, 8, 3}})), 0);
  const auto found = played.field<float>(0);
  for (std::int64_t i = 0; i < 2 * 7 * 8 * 3; ++i) {
    const auto picture = i / 168, channel = i / 56 % 3, p = i % 56;
    ASSERT_EQ(found[static_cast<std::size_t>(i)],
              static_cast<float>(picture * 168 + p * 3 + channel));
  }
}

TEST(GrayscaleTest, WeighsColoursAsGymnasiumDoes) {
  const Played colours(with_channels_first(make_fields()));
  const Played played(with_grayscale(with_channels_first(make_fields())));
  EXPECT_EQ(played.env->spec().observation.at("picture").shape, (Shape{kHeight, kWidth}));
  const auto rgb = colours.field<std::uint8_t>(0), grey = played.field<std::uint8_t>(0);
  for (std::size_t p = 0; p < grey.size(); ++p)
    ASSERT_EQ(grey[p], static_cast<int>(0.2125 * rgb[p] + 0.7154 * rgb[p + grey.size()] +
                                        0.0721 * rgb[p + 2 * grey.size()]));
  EXPECT_THAT(message_of([] { with_grayscale(make_cart_pole())({}); }),
              HasSubstr("no field is a picture [3, H, W] of bytes"));
}

TEST(ResizedPicturesTest, AveragesTheAreaUnderEachPixel) {
  const ArraySpec array{.dtype = DType::kUInt8, .shape = {2, 8, 12}};
  const Played whole(make_counter(array), 0);
  const Played played(with_resized_pictures(make_counter(array), 4, 3), 0);
  EXPECT_EQ(played.env->spec().observation[0].shape, (Shape{2, 4, 3}));
  const auto old = whole.field<std::uint8_t>(0), found = played.field<std::uint8_t>(0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto plane = i / 12, y = i / 3 % 4, x = i % 3;
    double sum = 0;
    for (std::size_t dy = 0; dy < 2; ++dy)
      for (std::size_t dx = 0; dx < 4; ++dx)
        sum += old[plane * 96 + (2 * y + dy) * 12 + 4 * x + dx];
    ASSERT_EQ(found[i], std::lrint(sum / 8)) << i;
  }
}

// OpenCV's INTER_AREA rounds half up where both sides are halved: the mean of 0, 0, 1, 1 is 1.
TEST(ResizedPicturesTest, HalvesAsOpenCvDoes) {
  const std::array<std::uint8_t, 8> picture{0, 1, 2, 3, 1, 0, 4, 1};
  std::array<std::uint8_t, 2> out{};
  AreaResize(2, 4, 1, 2).row(picture.data(), 0, out.data());
  EXPECT_THAT(out, testing::ElementsAre(1, 3));
}

TEST(ResizedPicturesTest, MistakesAreNamed) {
  const auto make_env = with_channels_first(make_fields());
  EXPECT_THAT(message_of([&] { with_resized_pictures(make_env, 9, 9)({}); }),
              HasSubstr("a picture 'picture' of 8 x 10 pixels, expected at most these"));
  EXPECT_THAT(message_of([&] { with_resized_pictures(make_cart_pole(), 9, 9)({}); }),
              HasSubstr("no field is a picture"));
  EXPECT_THAT(message_of([&] { with_resized_pictures(make_env, 0, 9); }), HasSubstr("0 x 9"));
}

TEST(FlatObservationsTest, ChangesTheSpecAlone) {
  const Played played(with_flat_observations(make_fields()));
  const auto& spec = played.env->spec();
  EXPECT_EQ(spec.observation.at("picture").shape, Shape{kHeight * kWidth * 3});
  EXPECT_EQ(spec.observation.at("table").shape, Shape{6});
  EXPECT_EQ(spec.observation.at("state/gear").shape, Shape{});
  EXPECT_THAT(played.field<double>(3), ElementsAre(20, 21, 22, 23, 24, 25));
}

TEST(ReducedInfoTest, AnInfoIsReducedAsAsked) {
  const auto reduction = [](const std::string& text) {
    return with_reduced_info(make_fields(), parse_info(text))({})->spec().info[0].reduce;
  };
  EXPECT_EQ(reduction("steps"), PerEpisode::kLast);
  EXPECT_EQ(reduction("steps:sum"), PerEpisode::kSum);
  EXPECT_EQ(reduction("steps:max"), PerEpisode::kMax);
  EXPECT_THAT(message_of([&] { reduction("step"); }), HasSubstr("the infos are [steps]"));
  EXPECT_THAT(message_of([&] { parse_info("steps:mean"); }),
              HasSubstr("found 'steps:mean', expected a name, or one with :last, :sum or :max"));
}

TEST(ObservationOptionsTest, WrappersFollowOneAnother) {
  register_env("Fields-v0", make_fields());
  const EnvOptions options{
      .observation = {"picture"}, .grayscale = true, .resize = {7}, .stack = 3};
  const auto make_env = make_env_factory("Fields-v0", options);
  const auto array = make_env({})->spec().observation.at("picture");
  EXPECT_EQ(array.shape, (Shape{7, 7}));
  EXPECT_EQ(array.stack, 3);
  EXPECT_EQ(check_env(make_env, {.steps = 60}), std::vector<std::string>{});
  EXPECT_THAT(message_of([] { make_env_factory("Fields-v0", {.gymnasium = {.wrappers = {"A"}}}); }),
              HasSubstr("'Fields-v0' is no environment of Gymnasium's"));
}

}  // namespace
}  // namespace shoal
