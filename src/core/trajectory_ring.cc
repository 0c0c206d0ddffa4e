#include "shoal/core/trajectory_ring.h"

#include <new>

#include "shoal/core/error.h"
#include "src/core/waiting.h"

namespace shoal {

namespace {

// A slot's state: what it is, and for whom.
enum Phase : std::uint32_t { kFree, kWriting, kReady, kReading };
constexpr std::uint32_t state_of(Phase phase, int writer) {
  return static_cast<std::uint32_t>(writer) << 2 | phase;
}
constexpr Phase phase_of(std::uint32_t state) { return static_cast<Phase>(state & 3); }
constexpr int writer_of(std::uint32_t state) { return static_cast<int>(state >> 2); }

constexpr int kMostSlots = 65'535, kMostWriters = 16'384;

}  // namespace

struct TrajectoryRing::Head {
  alignas(64) Word published{0};      // changed by every publish(); the reader parks on it
  alignas(64) Word reader_parked{0};  //
  alignas(64) Word freed{0};          // changed by every slot that becomes free; writers park on it
  alignas(64) Word writers_parked{0};  //
  alignas(64) Word stopped{0};
  alignas(64) Word draining{0};  // no writer acquires
  alignas(64) std::atomic<std::int64_t> number{0};
};

struct alignas(64) TrajectoryRing::Slot {
  Word state{kFree};
  WindowTag tag;  // the writer's while it writes, the reader's from kReady on
};

std::size_t TrajectoryRing::bytes(int slots) {
  return sizeof(Head) + static_cast<std::size_t>(slots) * sizeof(Slot);
}

TrajectoryRing::TrajectoryRing(std::byte* memory, const TrajectoryRingOptions& options)
    : head_(new (memory) Head), options_(options) {
  require(options.slots >= 1 && options.slots <= kMostSlots,
          "a ring of {} slots: 1 to {} are possible", options.slots, kMostSlots);
  require(options.max_lag >= 0, "a ring's max_lag is {}; it must not be negative", options.max_lag);
  for (int i = 0; i < options.slots; ++i) new (&slot(i)) Slot;
}

TrajectoryRing::Slot& TrajectoryRing::slot(int index) const {
  return reinterpret_cast<Slot*>(head_ + 1)[index];
}

std::optional<int> TrajectoryRing::find_free(int writer) {
  if (options_.drain && head_->draining.load(std::memory_order_seq_cst) != 0) return {};
  for (int i = 0; i < options_.slots; ++i) {
    const int index = (next_ + i) % options_.slots;
    auto& state = slot(index).state;
    std::uint32_t free = kFree;
    if (state.load(std::memory_order_relaxed) != kFree ||
        !state.compare_exchange_strong(free, state_of(kWriting, writer), std::memory_order_acquire))
      continue;
    next_ = index + 1;
    return index;
  }
  return {};
}

std::optional<int> TrajectoryRing::acquire(int writer, std::chrono::milliseconds timeout) {
  require(writer >= 0 && writer < kMostWriters, "writer {}: a number from 0 to {} was expected",
          writer, kMostWriters - 1);
  const auto deadline = deadline_of(timeout);
  for (;;) {
    if (stopped()) return {};
    const auto seen = head_->freed.load(std::memory_order_seq_cst);
    if (const auto found = find_free(writer)) return found;
    if (options_.drain) begin_draining();
    const auto changed = [seen](std::uint32_t freed) { return freed != seen; };
    if (poll(head_->freed, options_.spin, changed)) continue;
    head_->writers_parked.store(1, std::memory_order_seq_cst);
    if (!park(head_->freed, deadline, changed)) return stopped() ? std::nullopt : find_free(writer);
  }
}

void TrajectoryRing::publish(int index, WindowTag tag) {
  auto& of = slot(index);
  const auto state = of.state.load(std::memory_order_relaxed);
  require(phase_of(state) == kWriting, "slot {} is published by a writer that did not acquire it",
          index);
  tag.writer = writer_of(state);
  tag.number = head_->number.fetch_add(1, std::memory_order_relaxed) + 1;
  of.tag = tag;
  of.state.store(state_of(kReady, tag.writer), std::memory_order_seq_cst);
  // A writer that is killed here leaves a window that the reader finds when its wait times out.
  head_->published.fetch_add(1, std::memory_order_seq_cst);
  if (head_->reader_parked.load(std::memory_order_seq_cst) != 0) futex_wake_all(head_->published);
}

bool TrajectoryRing::ready(int index) const {
  return phase_of(slot(index).state.load(std::memory_order_acquire)) == kReady;
}

// The ready slot with the lowest number, or -1. While it looks, a writer may publish a window in a
// slot that has been passed, and its next one in a slot still to come: hence once more, until
// nothing lower turns up.
int TrajectoryRing::oldest_ready() const {
  int oldest = -1;
  for (int before = -2; before != oldest;) {
    before = oldest;
    for (int i = 0; i < options_.slots; ++i)
      if (ready(i) && (oldest < 0 || slot(i).tag.number < slot(oldest).tag.number)) oldest = i;
  }
  return oldest;
}

std::optional<TrajectoryRing::Window> TrajectoryRing::take(std::int64_t version,
                                                           std::chrono::milliseconds timeout) {
  const auto deadline = deadline_of(timeout);
  for (bool last = false;;) {
    const auto seen = head_->published.load(std::memory_order_seq_cst);
    for (int index = oldest_ready(); index >= 0; index = oldest_ready()) {
      auto& of = slot(index);
      of.state.store(state_of(kReading, 0), std::memory_order_seq_cst);
      const bool old = version - of.tag.policy_version > options_.max_lag;
      counts_.too_old += old;
      if (!old || options_.too_old == TooOld::kUse) {
        ++counts_.taken;
        return Window{.slot = index, .tag = of.tag};
      }
      ++counts_.dropped;
      release(index);
    }
    end_draining_if_empty();
    if (last || stopped()) return {};
    const auto changed = [seen](std::uint32_t published) { return published != seen; };
    if (poll(head_->published, options_.spin, changed)) continue;
    head_->reader_parked.store(1, std::memory_order_seq_cst);
    last = !park(head_->published, deadline, changed);
    head_->reader_parked.store(0, std::memory_order_relaxed);
  }
}

void TrajectoryRing::release(int index) {
  require(phase_of(slot(index).state.load(std::memory_order_relaxed)) == kReading,
          "slot {} is released, but was not taken", index);
  free_slot(index);
  end_draining_if_empty();
}

void TrajectoryRing::free_slot(int index) {
  slot(index).state.store(kFree, std::memory_order_seq_cst);
  wake_writers();
}

void TrajectoryRing::wake_writers() {
  head_->freed.fetch_add(1, std::memory_order_seq_cst);
  // Not a count of who waits: a writer that was killed while it did would be counted for ever.
  if (head_->writers_parked.load(std::memory_order_seq_cst) != 0 &&
      head_->writers_parked.exchange(0, std::memory_order_seq_cst) != 0)
    futex_wake_all(head_->freed);
}

bool TrajectoryRing::unread() const {
  for (int i = 0; i < options_.slots; ++i) {
    const auto phase = phase_of(slot(i).state.load(std::memory_order_seq_cst));
    if (phase == kReady || phase == kReading) return true;
  }
  return false;
}

// Of a writer that found no free slot. The reader may have freed the last one meanwhile, and looked
// for this flag before it was up: then nobody else would take it down.
void TrajectoryRing::begin_draining() {
  if (unread() && head_->draining.exchange(1, std::memory_order_seq_cst) == 0)
    end_draining_if_empty();
}

void TrajectoryRing::end_draining_if_empty() {
  if (!options_.drain || head_->draining.load(std::memory_order_seq_cst) == 0 || unread()) return;
  head_->draining.store(0, std::memory_order_seq_cst);
  wake_writers();
}

void TrajectoryRing::stop() {
  head_->stopped.store(1, std::memory_order_seq_cst);
  for (auto* word : {&head_->published, &head_->freed}) {
    word->fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(*word);
  }
}

bool TrajectoryRing::stopped() const { return head_->stopped.load(std::memory_order_acquire) != 0; }

int TrajectoryRing::reclaim(int writer) {
  int found = 0;
  for (int i = 0; i < options_.slots; ++i) {
    if (slot(i).state.load(std::memory_order_acquire) != state_of(kWriting, writer)) continue;
    free_slot(i);
    ++found;
  }
  counts_.reclaimed += found;
  return found;
}

RingCounts TrajectoryRing::counts() const {
  auto counts = counts_;
  counts.published = head_->number.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace shoal
