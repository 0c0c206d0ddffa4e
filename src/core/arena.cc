#include "shoal/core/arena.h"

#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/anonymous_shared_memory.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>

#include "shoal/core/error.h"

namespace shoal {

namespace {

constexpr std::int64_t kCacheLine = 64;

std::string shape_text(const std::vector<std::int64_t>& lead, const ArraySpec& spec) {
  auto shape = lead;
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return fmt::format("{} array of shape [{}]", name_of(spec.dtype), fmt::join(shape, ", "));
}

// Bytes of the array, rounded up to whole cache lines. Zero dimensions count as one in the overflow
// check, so that no partial product of the shape overflows either.
std::int64_t padded_bytes(const std::vector<std::int64_t>& lead, const ArraySpec& spec) {
  auto bytes = static_cast<std::int64_t>(size_of(spec.dtype));
  bool empty = false, fits = true;
  for (const auto* dims : {&lead, &spec.shape}) {
    for (const auto dim : *dims) {
      require(dim >= 0, "{} has a dimension below zero", shape_text(lead, spec));
      empty = empty || dim == 0;
      fits = fits && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(dim, 1), &bytes);
    }
  }
  fits = fits && !__builtin_add_overflow(bytes, kCacheLine - 1, &bytes);
  require(fits,
          "{} is larger than 64 bits can count; reduce the number of environments, the horizon or "
          "the replay",
          shape_text(lead, spec));
  return empty ? 0 : bytes / kCacheLine * kCacheLine;
}

std::string size_text(std::size_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

// What may be planned: all that is available but a small part, for page tables and the rest of the
// program.
void require_fits(std::size_t bytes) {
  const auto available = available_memory();
  const auto usable = available - available / 64;
  require(bytes <= usable,
          "shared memory of {} is wanted and {} is available on this machine or in its control "
          "group; reduce the number of environments, the horizon or the replay",
          size_text(bytes), size_text(usable));
}

// Backs every page now: a page that cannot be had is an error here and SIGBUS later.
void populate(std::byte* base, std::size_t bytes) {
  while (madvise(base, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    require(errno == EINVAL, "{} of shared memory could not be populated: {}", size_text(bytes),
            std::strerror(errno));
    // Linux before 5.14: by hand.
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < bytes; at += page)
      *static_cast<volatile std::byte*>(base + at) = std::byte{0};
    return;
  }
}

// There is no mapping of zero bytes.
std::size_t mapped_bytes(std::size_t bytes) { return std::max<std::size_t>(bytes, kCacheLine); }

}  // namespace

SharedFile::SharedFile() : file_(memfd_create("shoal", MFD_CLOEXEC)) {
  require(file_ >= 0, "memory to share could not be had: {}", std::strerror(errno));
}

SharedFile::~SharedFile() { close(file_); }

std::shared_ptr<std::byte> SharedFile::map(std::size_t bytes) const {
  const auto size = mapped_bytes(bytes);
  require(ftruncate(file_, static_cast<off_t>(size)) == 0, "{} of memory could not be shared: {}",
          size_text(size), std::strerror(errno));
  auto* const base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  require(base != MAP_FAILED, "{} of shared memory could not be mapped: {}", size_text(size),
          std::strerror(errno));
  return {static_cast<std::byte*>(base), [size](std::byte* at) { munmap(at, size); }};
}

std::int64_t Arena::Field::elements() const {
  return std::accumulate(lead.begin(), lead.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t Arena::Field::bytes() const {
  return static_cast<std::size_t>(elements()) * element_bytes;
}

Arena::Field Arena::Plan::add(std::vector<std::int64_t> lead, ArraySpec spec) {
  const auto bytes = padded_bytes(lead, spec);
  std::int64_t end = 0;
  require(!__builtin_add_overflow(static_cast<std::int64_t>(bytes_), bytes, &end),
          "{} makes the plan larger than 64 bits can count", shape_text(lead, spec));
  const auto each = spec.bytes();
  Field field{bytes_, std::move(lead), std::move(spec), each};
  bytes_ = static_cast<std::size_t>(end);
  return field;
}

Arena::Field Arena::Plan::add_bytes(std::size_t bytes) {
  return add({}, {.dtype = DType::kUInt8, .shape = {static_cast<std::int64_t>(bytes)}});
}

Arena::Arena(const Plan& plan) : bytes_(plan.bytes()) {
  namespace ipc = boost::interprocess;
  require_fits(bytes_);
  try {
    auto region =
        std::make_shared<ipc::mapped_region>(ipc::anonymous_shared_memory(mapped_bytes(bytes_)));
    base_ = static_cast<std::byte*>(region->get_address());
    region_ = std::move(region);
  } catch (const ipc::interprocess_exception& e) {
    throw Error("{} of shared memory could not be mapped: {}", size_text(bytes_), e.what());
  }
  begin();
}

Arena::Arena(const Plan& plan, const SharedFile& file, bool first) : bytes_(plan.bytes()) {
  if (first) require_fits(bytes_);
  const auto region = file.map(bytes_);
  base_ = region.get();
  region_ = region;
  if (first) begin();
}

void Arena::begin() const {
  populate(base_, mapped_bytes(bytes_));
#ifndef NDEBUG
  std::memset(base_, std::to_integer<int>(kMagic), bytes_);
#endif
}

std::size_t Arena::bytes() const { return bytes_; }

}  // namespace shoal
