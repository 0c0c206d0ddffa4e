#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/rows.h"
#include "shoal/data/samples.h"

namespace shoal {

// Final observations of truncated episodes (of a frame stack, the newest frame) and their action
// masks. The number of places grows to the largest number in use at once.
class FinalFrames {
 public:
  // file: shared memory, if ranks share the replay; else null. most: places of each rank.
  FinalFrames(const RolloutSpec& spec, const SharedFile* file, int rank, int ranks,
              std::int64_t most);

  // Copies entry k of a rollout's final observations; returns its place.
  std::int32_t add(const FinalObservations& final_obs, std::int64_t k);
  // Returns a new place, whose frames and masks the caller writes.
  std::int32_t add();
  void remove(std::int32_t place) { free_.push_back(place); }
  std::int32_t places() const { return places_; }  // in use or free

  // Names: "final/FIELD" and "final_mask/FIELD", [places, bytes], and "final_places", the free
  // places.
  void save(NamedTensors& to);
  void restore(const NamedTensors& from);

  // A place of any rank.
  const std::byte* frame(std::size_t field, std::int32_t place, std::int64_t rank) const {
    return at(field, place, rank);
  }
  const std::byte* mask(std::size_t field, std::int32_t place, std::int64_t rank) const {
    return at(observations_ + field, place, rank);
  }
  // A place of this rank.
  std::byte* frame(std::size_t field, std::int32_t place) { return at(field, place, rank_); }
  std::byte* mask(std::size_t field, std::int32_t place) {
    return at(observations_ + field, place, rank_);
  }

 private:
  struct Field {
    std::string name;
    std::size_t size;                   // of a frame or mask
    std::byte* frames = nullptr;        // [ranks, most, size]
    std::vector<std::byte> bytes = {};  // their memory, unless it is shared
  };
  std::byte* at(std::size_t field, std::int32_t place, std::int64_t rank) const {
    const auto& f = fields_[field];
    return f.frames + static_cast<std::size_t>(rank * most_ + place) * f.size;
  }
  void make_room();

  std::shared_ptr<std::byte> shared_;  // null: not shared
  std::int64_t rank_, most_;
  std::size_t observations_;   // number of observation fields
  std::vector<Field> fields_;  // observation fields, then masks
  std::vector<std::int32_t> free_;
  std::int32_t places_ = 0;
};

}  // namespace shoal
