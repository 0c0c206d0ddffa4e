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
#include "shoal/core/text.h"

namespace shoal {

namespace {

constexpr std::int64_t kCacheLine = 64;

std::string shape_text(const std::vector<std::int64_t>& lead, const ArraySpec& spec) {
  auto shape = lead;
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return fmt::format("{} array of shape [{}]", name_of(spec.dtype), fmt::join(shape, ", "));
}

// Bytes of the array, rounded up to whole cache lines. The overflow check counts zero dimensions as
// one, so that no partial product of the shape overflows either.
std::int64_t padded_bytes(const std::vector<std::int64_t>& lead, const ArraySpec& spec) {
  auto bytes = static_cast<std::int64_t>(size_of(spec.dtype));
  bool empty = false, fits = true;
  for (const auto* dims : {&lead, &spec.shape}) {
    for (const auto dim : *dims) {
      require(dim >= 0, "{} has a negative dimension; expected 0 or more", shape_text(lead, spec));
      empty = empty || dim == 0;
      fits = fits && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(dim, 1), &bytes);
    }
  }
  fits = fits && !__builtin_add_overflow(bytes, kCacheLine - 1, &bytes);
  require(fits,
          "the size of {} overflows 64 bits; reduce the number of environments, the horizon or "
          "the replay",
          shape_text(lead, spec));
  return empty ? 0 : bytes / kCacheLine * kCacheLine;
}

// Compares the plan with the available memory, less a small reserve for page tables and the rest of
// the program.
void require_fits(std::size_t bytes) {
  const auto available = available_memory();
  const auto usable = available - available / 64;
  require(bytes <= usable,
          "shared memory of {} is needed, but {} is available on this machine or in its cgroup; "
          "reduce the number of environments (sampler.envs), the horizon (sampler.horizon) or the "
          "replay (replay.size)",
          bytes_text(bytes), bytes_text(usable));
}

// Backs every page now, so that a missing page is an error here instead of SIGBUS later.
void populate(std::byte* base, std::size_t bytes) {
  while (madvise(base, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    require(errno == EINVAL, "cannot populate {} of shared memory: {}", bytes_text(bytes),
            std::strerror(errno));
    // Linux before 5.14 has no MADV_POPULATE_WRITE.
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < bytes; at += page)
      *static_cast<volatile std::byte*>(base + at) = std::byte{0};
    return;
  }
}

// mmap() rejects a length of zero.
std::size_t mapped_bytes(std::size_t bytes) { return std::max<std::size_t>(bytes, kCacheLine); }

}  // namespace

SharedFile::SharedFile() : file_(memfd_create("shoal", MFD_CLOEXEC)) {
  require(file_ >= 0, "memfd_create failed: {}", std::strerror(errno));
}

SharedFile::~SharedFile() { close(file_); }

std::shared_ptr<std::byte> SharedFile::map(std::size_t bytes) const {
  const auto size = mapped_bytes(bytes);
  require(ftruncate(file_, static_cast<off_t>(size)) == 0,
          "cannot resize the shared memory file to {}: {}", bytes_text(size), std::strerror(errno));
  auto* const base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  require(base != MAP_FAILED, "cannot map {} of shared memory: {}", bytes_text(size),
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
          "with {} the size of the plan overflows 64 bits", shape_text(lead, spec));
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
    throw Error("cannot map {} of shared memory: {}", bytes_text(bytes_), e.what());
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

}  // namespace shoal
