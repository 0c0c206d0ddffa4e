#include "src/replays/final_frames.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <cstring>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"

namespace shoal {

FinalFrames::FinalFrames(const NamedSpecs& observation) {
  for (const auto& [name, spec] : observation)
    fields_.push_back({"final/" + name, spec.bytes(), {}});
}

std::int32_t FinalFrames::add() {
  if (free_.empty()) {
    free_.push_back(places_++);
    for (auto& field : fields_) field.bytes.resize(field.size * static_cast<std::size_t>(places_));
  }
  const auto place = free_.back();
  free_.pop_back();
  return place;
}

std::int32_t FinalFrames::add(const Finals& finals, std::int64_t k) {
  const auto place = add();
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const auto& observed = finals.observation[i];
    const auto newest = observed.stacked() ? observed.index[k][-1].item<std::int64_t>() : k;
    std::memcpy(frame(i, place), observed.data[newest].const_data_ptr(), fields_[i].size);
  }
  return place;
}

void FinalFrames::save(NamedTensors& to) {
  for (auto& field : fields_)
    to.add(field.name, at::from_blob(field.bytes.data(),
                                     {places_, static_cast<std::int64_t>(field.size)}, at::kByte));
  to.add("final_places",
         at::from_blob(free_.data(), {static_cast<std::int64_t>(free_.size())}, at::kInt));
}

void FinalFrames::restore(const NamedTensors& from) {
  for (auto& field : fields_) {
    const auto& frames = saved(from, field.name);
    require(frames.dim() == 2 && frames.scalar_type() == at::kByte &&
                frames.size(1) == static_cast<std::int64_t>(field.size),
            "'{}' was saved as {} {}, expected frames of {} bytes", field.name,
            c10::toString(frames.scalar_type()), fmt::join(frames.sizes(), " x "), field.size);
    const auto* data = static_cast<const std::byte*>(frames.const_data_ptr());
    field.bytes.assign(data, data + frames.nbytes());
    places_ = static_cast<std::int32_t>(frames.size(0));
  }
  const auto free = saved(from, "final_places").to(at::kInt).contiguous();
  free_.assign(free.const_data_ptr<std::int32_t>(),
               free.const_data_ptr<std::int32_t>() + free.numel());
}

}  // namespace shoal
