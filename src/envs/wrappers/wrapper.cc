#include "shoal/envs/wrapper.h"

#include <algorithm>

#include "shoal/core/error.h"

namespace shoal {

bool Wrapper::save(std::vector<std::byte>& bytes) const {
  if (!env_->save(bytes)) return false;
  const auto own = const_cast<Wrapper*>(this)->memory();
  bytes.insert(bytes.end(), own.begin(), own.end());
  return true;
}

bool Wrapper::load(std::span<const std::byte> bytes) {
  const auto own = memory();
  require(bytes.size() >= own.size(), "{}: expected a saved state of at least {} bytes, found {}",
          spec_.id, own.size(), bytes.size());
  const auto inner = bytes.first(bytes.size() - own.size());
  if (!env_->load(inner)) return false;
  std::ranges::copy(bytes.subspan(inner.size()), own.begin());
  return true;
}

}  // namespace shoal
