#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/envs/wrapper.h"
#include "shoal/envs/wrappers.h"
#include "src/envs/atari/area_resize.h"
#include "src/envs/wrappers/wrap.h"

namespace shoal {
namespace {

constexpr std::int64_t kSmallestSide = 7, kMostChannels = 16;

bool is_byte_picture(const ArraySpec& array) {
  const auto dims = array.shape.size();
  return array.dtype == DType::kUInt8 && (dims == 2 || dims == 3) &&
         array.shape[dims - 2] >= kSmallestSide && array.shape[dims - 1] >= kSmallestSide;
}

std::string shapes_of(const NamedSpecs& observation) {
  std::vector<std::string> all;
  for (const auto& [name, array] : observation)
    all.push_back(fmt::format("'{}' {} {}", name, name_of(array.dtype), array.shape));
  return fmt::format("{}", fmt::join(all, ", "));
}

// The wrapped environment writes some fields to private memory. Every other field is written where
// this environment's own field is to be.
class PrivateFields : public Wrapper {
 public:
  explicit PrivateFields(std::unique_ptr<Env> env) : Wrapper(std::move(env)) {
    for (const auto& [name, array] : env_->spec().observation) memories_.push_back({array, {}, 0});
    for (std::size_t i = 0; i < memories_.size(); ++i) memories_[i].shown_as = i;
    pointers_.resize(memories_.size());
  }

  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    Wrapper::reset(seed, inside(out));
    convert(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const auto result = Wrapper::step(action, inside(out));
    convert(out);
    return result;
  }

 protected:
  struct Field {
    ArraySpec array;               // as the wrapped environment writes it
    std::vector<std::byte> bytes;  // empty: not private
    std::size_t shown_as;          // index of this environment's field
  };
  void make_private(std::size_t i) { memories_[i].bytes.resize(memories_[i].array.bytes()); }
  std::vector<Field>& fields() { return memories_; }

  // From the private field to this environment's.
  virtual void convert_field(Field&, std::byte* to) = 0;

 private:
  StepOut inside(StepOut out) {
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      auto& field = memories_[i];
      pointers_[i] =
          field.bytes.empty() ? out.observation.as<std::byte>(field.shown_as) : field.bytes.data();
    }
    out.observation = ArraysOut(pointers_);
    return out;
  }
  void convert(const StepOut& out) {
    for (auto& field : memories_)
      if (!field.bytes.empty()) convert_field(field, out.observation.as<std::byte>(field.shown_as));
  }

  std::vector<Field> memories_;
  std::vector<std::byte*> pointers_;
};

class ObservationFields : public PrivateFields {
 public:
  ObservationFields(std::unique_ptr<Env> env, const std::vector<std::string>& names)
      : PrivateFields(std::move(env)) {
    const auto all = spec_.observation;
    const auto wants = [&](const std::string& field, const std::string& name) {
      return field == name || field.starts_with(name + "/");
    };
    for (const auto& name : names)
      require(std::ranges::any_of(all, [&](const auto& f) { return wants(f.first, name); }),
              "{}: env.observation: there is no field '{}'; the fields are {}", spec_.id, name,
              shapes_of(all));
    spec_.observation = {};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& field = all.name(i);
      if (std::ranges::any_of(names, [&](const auto& name) { return wants(field, name); })) {
        fields()[i].shown_as = spec_.observation.size();
        spec_.observation.add(field, all[i]);
      } else {
        make_private(i);
        fields()[i].shown_as = 0;
      }
    }
  }

 private:
  void convert_field(Field&, std::byte*) override {}  // is not shown
};

class ObservationElements : public PrivateFields {
 public:
  ObservationElements(std::unique_ptr<Env> env, std::vector<std::int64_t> elements)
      : PrivateFields(std::move(env)), elements_(std::move(elements)) {
    auto& observation = spec_.observation;
    require(observation.size() == 1 && observation[0].shape.size() == 1,
            "{}: cannot select elements of the observation; expected a single vector", spec_.id);
    auto& array = observation[0];
    for (const auto i : elements_)
      require(i >= 0 && i < array.shape[0], "{}: cannot select element {} of an observation of {}",
              spec_.id, i, array.shape[0]);
    make_private(0);
    array.shape = {static_cast<std::int64_t>(elements_.size())};
  }

 private:
  void convert_field(Field& field, std::byte* to) override {
    const auto size = size_of(field.array.dtype);
    for (const auto i : elements_)
      to = std::copy_n(field.bytes.data() + static_cast<std::size_t>(i) * size, size, to);
  }

  std::vector<std::int64_t> elements_;
};

// Moves the channels of every pixel into planes.
template <class T>
void into_planes(const std::byte* from, std::int64_t pixels, std::int64_t channels, std::byte* to) {
  const auto* in = reinterpret_cast<const T*>(from);
  auto* out = reinterpret_cast<T*>(to);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t p = 0; p < pixels; ++p) *out++ = in[p * channels + c];
}

class ChannelsFirst : public PrivateFields {
 public:
  explicit ChannelsFirst(std::unique_ptr<Env> env) : PrivateFields(std::move(env)) {
    for (std::size_t i = 0; i < spec_.observation.size(); ++i) {
      auto& shape = spec_.observation[i].shape;
      if (!is_channels_last(spec_.observation[i])) continue;
      make_private(i);
      const auto found = shape;
      const auto dims = shape.size();
      const auto pictures = dims == 4 ? shape[0] : 1;
      shape = {pictures * shape[dims - 1], shape[dims - 3], shape[dims - 2]};
      spec_.notices.push_back(fmt::format(
          "{}: the observation {}{} is read as a channels-last picture, transposed to {}", spec_.id,
          spec_.observation.name(i).empty() ? "" : "'" + spec_.observation.name(i) + "' ", found,
          shape));
    }
  }

  static bool is_channels_last(const ArraySpec& array) {
    const auto dims = array.shape.size();
    if (dims != 3 && dims != 4) return false;
    const auto height = array.shape[dims - 3], width = array.shape[dims - 2],
               channels = array.shape[dims - 1];
    const bool few = channels <= kMostChannels && channels < std::min(height, width);
    const bool square = dims == 3 && height == width && channels != width;  // a board with planes
    return std::min(height, width) >= kSmallestSide && channels >= 1 && (few || square);
  }

 private:
  void convert_field(Field& field, std::byte* to) override {
    const auto& [array, bytes, shown_as] = field;
    const auto dims = array.shape.size();
    const auto pictures = dims == 4 ? array.shape[0] : 1;
    const auto channels = array.shape[dims - 1];
    const auto pixels = array.shape[dims - 3] * array.shape[dims - 2];
    const auto size = array.bytes() / static_cast<std::size_t>(pictures);
    for (std::int64_t i = 0; i < pictures; ++i) {
      const auto at = static_cast<std::size_t>(i) * size;
      planes(bytes.data() + at, pixels, channels, array.dtype, to + at);
    }
  }
  static void planes(const std::byte* from, std::int64_t pixels, std::int64_t channels, DType dtype,
                     std::byte* to) {
    switch (size_of(dtype)) {
      case 1:
        return into_planes<std::uint8_t>(from, pixels, channels, to);
      case 4:
        return into_planes<std::uint32_t>(from, pixels, channels, to);
      default:
        return into_planes<std::uint64_t>(from, pixels, channels, to);
    }
  }
};

class Grayscale : public PrivateFields {
 public:
  explicit Grayscale(std::unique_ptr<Env> env) : PrivateFields(std::move(env)) {
    bool any = false;
    for (std::size_t i = 0; i < spec_.observation.size(); ++i) {
      auto& array = spec_.observation[i];
      if (!is_byte_picture(array) || array.shape.size() != 3 || array.shape[0] != 3) continue;
      any = true;
      make_private(i);
      array.shape.erase(array.shape.begin());
    }
    require(any,
            "{}: env.grayscale: no field is a picture [3, H, W] of bytes; found {}; leave it off",
            spec_.id, shapes_of(spec_.observation));
  }

 private:
  void convert_field(Field& field, std::byte* to) override {
    const auto pixels = field.array.count() / 3;
    const auto* red = reinterpret_cast<const std::uint8_t*>(field.bytes.data());
    const auto *green = red + pixels, *blue = green + pixels;
    auto* grey = reinterpret_cast<std::uint8_t*>(to);
    for (std::int64_t p = 0; p < pixels; ++p)
      grey[p] = static_cast<std::uint8_t>(red[p] * 0.2125 + green[p] * 0.7154 + blue[p] * 0.0721);
  }
};

class ResizedPictures : public PrivateFields {
 public:
  ResizedPictures(std::unique_ptr<Env> env, std::int64_t height, std::int64_t width)
      : PrivateFields(std::move(env)), height_(height), width_(width) {
    bool any = false;
    for (std::size_t i = 0; i < spec_.observation.size(); ++i) {
      auto& array = spec_.observation[i];
      resizes_.emplace_back();
      if (!is_byte_picture(array)) continue;
      any = true;
      auto &old_height = array.shape[array.shape.size() - 2], &old_width = array.shape.back();
      require(height <= old_height && width <= old_width,
              "{}: env.resize: found [{}, {}] and a picture '{}' of {} x {} pixels, expected at "
              "most these; networks read pictures from 7 x 7 pixels on",
              spec_.id, height, width, spec_.observation.name(i), old_height, old_width);
      resizes_.back() =
          std::make_unique<AreaResize>(static_cast<int>(old_height), static_cast<int>(old_width),
                                       static_cast<int>(height), static_cast<int>(width));
      make_private(i);
      old_height = height, old_width = width;
    }
    require(any,
            "{}: env.resize: no field is a picture [H, W] or [C, H, W] of bytes; found {}; leave "
            "it empty",
            spec_.id, shapes_of(spec_.observation));
  }

 private:
  void convert_field(Field& field, std::byte* to) override {
    const auto& shape = field.array.shape;
    const auto planes = shape.size() == 3 ? shape[0] : 1;
    const auto size = field.array.count() / planes;
    const auto* from = reinterpret_cast<const std::uint8_t*>(field.bytes.data());
    auto* pixels = reinterpret_cast<std::uint8_t*>(to);
    auto& resize = *resizes_[field.shown_as];
    for (std::int64_t plane = 0; plane < planes; ++plane, from += size)
      for (int y = 0; y < height_; ++y, pixels += width_) resize.row(from, y, pixels);
  }

  std::int64_t height_, width_;
  std::vector<std::unique_ptr<AreaResize>> resizes_;  // of each field; null: not a picture
};

class FlatObservations : public Wrapper {
 public:
  explicit FlatObservations(std::unique_ptr<Env> env) : Wrapper(std::move(env)) {
    for (auto& [name, array] : spec_.observation)
      if (array.shape.size() > 1) array.shape = {array.count()};
  }
};

class ReducedInfo : public Wrapper {
 public:
  ReducedInfo(std::unique_ptr<Env> env, const InfoSpec& info) : Wrapper(std::move(env)) {
    std::vector<std::string> names;
    for (const auto& own : spec_.info) names.push_back(own.name);
    const auto found = std::ranges::find(names, info.name);
    require(found != names.end(), "{}: env.info: there is no info '{}'; the infos are [{}]",
            spec_.id, info.name, fmt::join(names, ", "));
    spec_.info[static_cast<std::size_t>(found - names.begin())].reduce = info.reduce;
  }
};

}  // namespace

EnvFactory with_observation_fields(EnvFactory make_env, std::vector<std::string> names) {
  require(!names.empty(), "an empty list of observation fields; expected at least one");
  return wrap<ObservationFields>(std::move(make_env), std::move(names));
}

EnvFactory with_observation_elements(EnvFactory make_env, std::vector<std::int64_t> elements) {
  require(!elements.empty(), "an empty list of observation indices; expected at least one");
  return wrap<ObservationElements>(std::move(make_env), std::move(elements));
}

EnvFactory with_channels_first(EnvFactory make_env) {
  return [make_env = std::move(make_env)](const EnvContext& context) -> std::unique_ptr<Env> {
    auto env = make_env(context);
    const bool any = std::ranges::any_of(env->spec().observation, [](const auto& field) {
      return ChannelsFirst::is_channels_last(field.second);
    });
    if (!any) return env;
    return std::make_unique<ChannelsFirst>(std::move(env));
  };
}

EnvFactory with_grayscale(EnvFactory make_env) { return wrap<Grayscale>(std::move(make_env)); }

EnvFactory with_resized_pictures(EnvFactory make_env, std::int64_t height, std::int64_t width) {
  require(height > 0 && width > 0, "a picture of {} x {} pixels; expected at least 1 x 1", height,
          width);
  return wrap<ResizedPictures>(std::move(make_env), height, width);
}

EnvFactory with_flat_observations(EnvFactory make_env) {
  return wrap<FlatObservations>(std::move(make_env));
}

EnvFactory with_reduced_info(EnvFactory make_env, const InfoSpec& info) {
  return wrap<ReducedInfo>(std::move(make_env), info);
}

}  // namespace shoal
