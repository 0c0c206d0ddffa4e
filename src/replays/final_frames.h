#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/core/spec.h"
#include "shoal/data/samples.h"

namespace shoal {

// The last observations of truncated episodes, of a stack the newest frame. There are as many
// places as were needed at once so far.
class FinalFrames {
 public:
  explicit FinalFrames(const NamedSpecs& observation);

  // Copies entry k of a window's finals; the place it has.
  std::int32_t add(const Finals& finals, std::int64_t k);
  // A place whose frames are still to be written.
  std::int32_t add();
  void remove(std::int32_t place) { free_.push_back(place); }
  std::int32_t places() const { return places_; }  // in use or free

  // By the names "final/FIELD", [places, bytes], and "final_places", those that are free.
  void save(NamedTensors& to);
  void restore(const NamedTensors& from);

  const std::byte* frame(std::size_t field, std::int32_t place) const {
    return fields_[field].bytes.data() + fields_[field].size * static_cast<std::size_t>(place);
  }
  std::byte* frame(std::size_t field, std::int32_t place) {
    return fields_[field].bytes.data() + fields_[field].size * static_cast<std::size_t>(place);
  }

 private:
  struct Field {
    std::string name;
    std::size_t size;  // of a frame
    std::vector<std::byte> bytes;
  };
  std::vector<Field> fields_;
  std::vector<std::int32_t> free_;
  std::int32_t places_ = 0;
};

}  // namespace shoal
