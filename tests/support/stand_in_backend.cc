#include "tests/support/stand_in_backend.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>
#include <cstring>

#include "tests/support/stand_in_capture.h"

namespace shoal::testing {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
using Access = DeviceMemory::Access;

struct Allocator final : c10::Allocator {
  at::DataPtr allocate(std::size_t n) override {
    auto* const begin = memory().allocate(n);
    return {begin, begin, raw_deleter(), kStandIn};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* begin) { memory().free(begin); };
  }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    const Access access;
    std::memcpy(to, from, n);
  }
};

struct PinnedAllocator final : c10::Allocator {
  at::DataPtr allocate(std::size_t n) override {
    auto* const begin = static_cast<std::byte*>(std::aligned_alloc(64, (n + 64) / 64 * 64));
    memory().pin({begin, n});
    return {begin, begin, raw_deleter(), at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* begin) {
      memory().unpin(begin);
      std::free(begin);
    };
  }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    std::memcpy(to, from, n);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return false; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  bool isPinnedPtr(const void* p) const override { return memory().is_pinned(p, 1); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedAllocator allocator;
    return &allocator;
  }
};

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device) const override { return kStandIn; }
  c10::Device getDevice() const override { return kStandIn; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, kStandIn); }
};

Allocator allocator;
REGISTER_ALLOCATOR(kType, &allocator)
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

c10::Allocator& device_allocator() { return allocator; }

void start_backend() {
  static const bool kStarted = [] {
    c10::register_privateuse1_backend("standin");
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    watch_host_operations();
    return true;
  }();
  (void)kStarted;
}

}  // namespace shoal::testing
