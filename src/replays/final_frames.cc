#include "src/replays/final_frames.h"

#include <ATen/ATen.h>

#include <cstring>

namespace shoal {

FinalFrames::FinalFrames(const NamedSpecs& observation) {
  for (const auto& [name, spec] : observation) fields_.push_back({spec.bytes(), {}});
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

}  // namespace shoal
