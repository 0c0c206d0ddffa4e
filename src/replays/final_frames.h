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

// The last observations of truncated episodes, of a stack the newest frame, and their action masks.
// There are as many places as were needed at once so far.
class FinalFrames {
 public:
  // file: of ranks that see each other's. Each of them has at most so many places.
  FinalFrames(const RolloutSpec& spec, const SharedFile* file, int rank, int ranks,
              std::int64_t most);

  // Copies entry k of a rollout's final observations; the place it has.
  std::int32_t add(const FinalObservations& final_obs, std::int64_t k);
  // A place whose frames and masks are still to be written.
  std::int32_t add();
  void remove(std::int32_t place) { free_.push_back(place); }
  std::int32_t places() const { return places_; }  // in use or free

  // By the names "final/FIELD" and "final_mask/FIELD", [places, bytes], and "final_places", those
  // that are free.
  void save(NamedTensors& to);
  void restore(const NamedTensors& from);

  // Of a rank's places.
  const std::byte* frame(std::size_t field, std::int32_t place, std::int64_t rank) const {
    return at(field, place, rank);
  }
  const std::byte* mask(std::size_t field, std::int32_t place, std::int64_t rank) const {
    return at(observations_ + field, place, rank);
  }
  // Of this rank's.
  std::byte* frame(std::size_t field, std::int32_t place) { return at(field, place, rank_); }
  std::byte* mask(std::size_t field, std::int32_t place) {
    return at(observations_ + field, place, rank_);
  }

 private:
  struct Field {
    std::string name;
    std::size_t size;                   // of a frame or mask
    std::byte* frames = nullptr;        // [ranks, most, size]
    std::vector<std::byte> bytes = {};  // where they are, if nobody else sees them
  };
  std::byte* at(std::size_t field, std::int32_t place, std::int64_t rank) const {
    const auto& f = fields_[field];
    return f.frames + static_cast<std::size_t>(rank * most_ + place) * f.size;
  }
  void make_room();

  std::shared_ptr<std::byte> shared_;  // null: nobody else sees them
  std::int64_t rank_, most_;
  std::size_t observations_;   // fields that are
  std::vector<Field> fields_;  // those, and the masks behind them
  std::vector<std::int32_t> free_;
  std::int32_t places_ = 0;
};

}  // namespace shoal
