#include "src/replays/final_frames.h"

#include <ATen/ATen.h>

#include <cstring>

namespace shoal {

FinalFrames::FinalFrames(const NamedSpecs& observation) {
  for (const auto& [name, spec] : observation) fields_.push_back({spec.bytes(), {}});
}

std::int32_t FinalFrames::add(const Finals& finals, std::int64_t k) {
  if (free_.empty()) {
    free_.push_back(places_++);
    for (auto& field : fields_) field.bytes.resize(field.size * static_cast<std::size_t>(places_));
  }
  const auto place = free_.back();
  free_.pop_back();
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const auto& observed = finals.observation[i];
    const auto newest = observed.stacked() ? observed.index[k][-1].item<std::int64_t>() : k;
    const auto frame = observed.data[newest];
    std::memcpy(fields_[i].bytes.data() + fields_[i].size * static_cast<std::size_t>(place),
                frame.const_data_ptr(), fields_[i].size);
  }
  return place;
}

}  // namespace shoal
