#include "tests/support/stand_in_capture.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace shoal::testing {
namespace {

std::mutex faults_mutex;
std::vector<std::string> all_faults;

struct CopyUnderWay {
  at::Tensor host, numbers;  // the host's content, or the content to be copied to the host
  bool to_host;
};
thread_local std::vector<CopyUnderWay> under_way;
thread_local bool device_works = false;

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == y.nbytes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto bytes = [](const at::Tensor& t) {
    const auto* begin = static_cast<const std::byte*>(t.const_data_ptr());
    return std::pair(begin, begin + at::detail::computeStorageNbytes(t.sizes(), t.strides(),
                                                                     t.dtype().itemsize()));
  };
  const auto x = bytes(a), y = bytes(b);
  return x.first < y.second && y.first < x.second;
}

void require_unchanged(const CopyUnderWay& c) {
  if (same_bytes(c.host, c.numbers)) return;
  const std::scoped_lock lock(faults_mutex);
  all_faults.push_back(
      fmt::format("the host has changed memory {} {} before the device had read it", c.host.sizes(),
                  c10::toString(c.host.scalar_type())));
}

}  // namespace

std::vector<std::string> StandInDevice::faults() {
  const std::scoped_lock lock(faults_mutex);
  return std::exchange(all_faults, {});
}

Working::Working() : before_(std::exchange(device_works, true)) {}
Working::~Working() { device_works = before_; }
bool Working::now() { return device_works; }

void copy_later_to_host(const at::Tensor& host, const at::Tensor& numbers) {
  // The device reads before it writes.
  std::erase_if(under_way, [&](const CopyUnderWay& c) {
    if (c.to_host || !overlap(c.host, host)) return false;
    require_unchanged(c);
    return true;
  });
  under_way.push_back({host, numbers, /*to_host=*/true});
}

void copied_from_host(const at::Tensor& host) {
  under_way.push_back({host, host.clone(), /*to_host=*/false});
}

void finish_copies() {
  const Working working;
  for (const auto& c : std::exchange(under_way, {})) {
    if (c.to_host)
      c.host.copy_(c.numbers);
    else
      require_unchanged(c);
  }
}

Operand::Operand(const at::Tensor& of, at::Tensor as_host) : tensor_(std::move(as_host)) {
  if (of.numel() == 0) return;
  if (const auto block = memory().find(of.const_data_ptr())) number_ = block->number;
  pinned_ = memory().is_pinned(of.const_data_ptr(), 1);
}

const at::Tensor& Operand::at_replay() const {
  bool gone = pinned_ && !memory().is_pinned(tensor_.const_data_ptr(), 1);
  if (number_ != 0) {
    const auto block = memory().find(tensor_.const_data_ptr());
    gone = !block || block->number != number_;
  }
  if (gone) throw std::runtime_error("a captured graph uses memory that has been freed since");
  return tensor_;
}

Capture* Capture::current() {
  return static_cast<Capture*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO));
}

void Capture::refuse(const std::string& what) {
  if (current() != nullptr)
    throw std::runtime_error("not permitted while a graph is captured: " + what);
}

void Capture::own(const c10::Storage& storage) {
  if (storage.nbytes() == 0) return;
  own_.push_back(storage);
  own_numbers_.insert(memory().find(storage.data())->number);
}

void Capture::will_write(const void* to) {
  const DeviceMemory::Access access;
  const auto block = memory().find(to);
  if (!block || own_numbers_.contains(block->number)) return;
  auto& bytes = before_[block->number];
  if (bytes.second.empty()) bytes = {block->begin, {block->begin, block->begin + block->size}};
}

void Capture::end() {
  const DeviceMemory::Access access;
  for (const auto& [number, place] : before_)
    if (const auto block = memory().find(place.first); block && block->number == number)
      std::copy(place.second.begin(), place.second.end(), place.first);
  before_.clear();
  for (const auto& s : own_) DeviceMemory::fill(*memory().find(s.data()));
}

void Capture::require_no_faults() const {
  if (!faults_.empty()) throw std::runtime_error(fmt::format("{}", fmt::join(faults_, "; ")));
}

void Capture::replay() const {
  const DeviceMemory::Access access;
  for (const auto& call : calls_) call();
  for (const auto& s : own_)
    if (s.use_count() == 1) DeviceMemory::fill(*memory().find(s.data()));
}

}  // namespace shoal::testing
