#include "src/replays/final_frames.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <cstring>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"

namespace shoal {

FinalFrames::FinalFrames(const RolloutSpec& spec, const SharedFile* file, int rank, int ranks,
                         std::int64_t most)
    : rank_(rank), most_(most), observations_(spec.observation.size()) {
  for (const auto& [name, array] : spec.observation)
    fields_.push_back({"final/" + name, array.bytes()});
  for (const auto& [name, array] : spec.mask)
    fields_.push_back({"final_mask/" + name, array.bytes()});
  if (file == nullptr) return;
  std::size_t bytes = 0;
  for (const auto& field : fields_) bytes += field.size * static_cast<std::size_t>(ranks * most);
  shared_ = file->map(bytes);
  auto* next = shared_.get();
  for (auto& field : fields_) {
    field.frames = next;
    next += field.size * static_cast<std::size_t>(ranks * most);
  }
}

// Grows the memory to places_; shared memory has its full size from the start.
void FinalFrames::make_room() {
  require(places_ <= most_, "final observations: found {} in use, expected at most {}", places_,
          most_);
  if (shared_) return;
  for (auto& field : fields_) {
    field.bytes.resize(field.size * static_cast<std::size_t>(places_));
    field.frames = field.bytes.data();
  }
}

std::int32_t FinalFrames::add() {
  if (free_.empty()) {
    free_.push_back(places_++);
    make_room();
  }
  const auto place = free_.back();
  free_.pop_back();
  return place;
}

std::int32_t FinalFrames::add(const FinalObservations& final_obs, std::int64_t k) {
  const auto place = add();
  for (std::size_t i = 0; i < observations_; ++i) {
    const auto& observed = final_obs.observation[i];
    const auto newest = observed.stacked() ? observed.index[k][-1].item<std::int64_t>() : k;
    std::memcpy(frame(i, place), observed.data[newest].const_data_ptr(), fields_[i].size);
  }
  for (std::size_t i = 0; i < final_obs.mask.size(); ++i)
    std::memcpy(mask(i, place), final_obs.mask[i][k].const_data_ptr(),
                fields_[observations_ + i].size);
  return place;
}

void FinalFrames::save(NamedTensors& to) {
  for (std::size_t f = 0; f < fields_.size(); ++f)
    to.add(fields_[f].name,
           at::from_blob(frame(f, 0), {places_, static_cast<std::int64_t>(fields_[f].size)},
                         at::kByte));
  to.add("final_places",
         at::from_blob(free_.data(), {static_cast<std::int64_t>(free_.size())}, at::kInt));
}

void FinalFrames::restore(const NamedTensors& from) {
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    require(
        f < observations_ || from.contains(fields_[f].name),
        "the replay was saved without the action masks of final observations ('{}'), by an earlier "
        "version of Shoal, and cannot be resumed; start a new run, with the same weights if needed "
        "(--init-from)",
        fields_[f].name);
    const auto frames = saved(from, fields_[f].name).contiguous();
    const auto size = fields_[f].size;
    require(frames.dim() == 2 && frames.scalar_type() == at::kByte &&
                frames.size(1) == static_cast<std::int64_t>(size),
            "'{}' was saved as {} {}, expected frames of {} bytes", fields_[f].name,
            c10::toString(frames.scalar_type()), fmt::join(frames.sizes(), " x "), size);
    places_ = static_cast<std::int32_t>(frames.size(0));
    make_room();
    if (places_ > 0) std::memcpy(frame(f, 0), frames.const_data_ptr(), frames.nbytes());
  }
  const auto free = saved(from, "final_places").to(at::kInt).contiguous();
  free_.assign(free.const_data_ptr<std::int32_t>(),
               free.const_data_ptr<std::int32_t>() + free.numel());
}

}  // namespace shoal
