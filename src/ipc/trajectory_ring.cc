#include "shoal/ipc/trajectory_ring.h"

#include <new>

#include "shoal/core/error.h"
#include "src/ipc/waiting.h"

namespace shoal {

namespace {

// A slot's state: its phase and its writer.
enum Phase : std::uint32_t { kFree, kWriting, kReady, kReading };
constexpr std::uint32_t state_of(Phase phase, int writer) {
  return static_cast<std::uint32_t>(writer) << 2 | phase;
}
constexpr Phase phase_of(std::uint32_t state) { return static_cast<Phase>(state & 3); }
constexpr int writer_of(std::uint32_t state) { return static_cast<int>(state >> 2); }

constexpr int kMostSlots = 65'535, kMostWriters = 16'384;

const TrajectoryRingOptions& checked(const TrajectoryRingOptions& options) {
  require(options.slots >= 1 && options.slots <= kMostSlots, "a ring of {} slots; expected 1 to {}",
          options.slots, kMostSlots);
  require(options.max_lag >= 0, "a ring with max_lag = {}; expected 0 or more", options.max_lag);
  return options;
}

// Waits, with the flag raised, until the word differs from `seen`; false once the deadline is over.
bool await_change(Word& word, Word& flag, std::uint32_t seen, int spin,
                  std::chrono::steady_clock::time_point deadline) {
  const auto changed = [seen](std::uint32_t value) { return value != seen; };
  if (!poll(word, spin, changed)) {
    flag.store(1, std::memory_order_seq_cst);
    park(word, deadline, changed);
  }
  return std::chrono::steady_clock::now() < deadline;
}

}  // namespace

struct TrajectoryRing::Head {
  alignas(64) Word published{0};  // the reader parks on it
  alignas(64) Word reader_parked{0};
  alignas(64) Word freed{0};  // writers park on it
  alignas(64) Word writers_parked{0};
  alignas(64) Word stopped{0};
  alignas(64) Word draining{0};  // writers wait; raised by a writer, lowered by the reader
  alignas(64) std::atomic<std::int64_t> number{0};
};

struct alignas(64) TrajectoryRing::Slot {
  Word state{kFree};
  RolloutTag tag;  // owned by the writer while kWriting, by the reader from kReady on
};

std::size_t TrajectoryRing::bytes(int slots) {
  return sizeof(Head) + static_cast<std::size_t>(slots) * sizeof(Slot);
}

TrajectoryRing::TrajectoryRing(std::byte* memory, const TrajectoryRingOptions& options)
    : options_(checked(options)) {
  head_ = new (memory) Head;
  for (int i = 0; i < options.slots; ++i) new (&slot(i)) Slot;
}

TrajectoryRing::Slot& TrajectoryRing::slot(int index) const {
  return reinterpret_cast<Slot*>(head_ + 1)[index];
}

bool TrajectoryRing::drains() const {
  return options_.drain && head_->draining.load(std::memory_order_seq_cst) != 0;
}

std::optional<int> TrajectoryRing::find_free(int writer) {
  if (drains()) return {};
  bool waiting = false;
  for (int i = 0; i < options_.slots; ++i) {
    const int index = (next_ + i) % options_.slots;
    auto& state = slot(index).state;
    auto seen = state.load(std::memory_order_relaxed);
    waiting |= phase_of(seen) == kReady;
    if (seen != kFree ||
        !state.compare_exchange_strong(seen, state_of(kWriting, writer), std::memory_order_acquire))
      continue;
    next_ = index + 1;
    return index;
  }
  if (options_.drain && waiting) begin_draining();
  return {};
}

std::optional<int> TrajectoryRing::acquire(int writer, std::chrono::milliseconds timeout) {
  require(writer >= 0 && writer < kMostWriters, "writer {}: expected a number from 0 to {}", writer,
          kMostWriters - 1);
  const auto deadline = deadline_of(timeout);
  for (bool last = false;;) {
    const auto seen = head_->freed.load(std::memory_order_seq_cst);
    if (stopped()) return {};
    if (const auto found = find_free(writer)) return found;
    if (last) return {};
    last = !await_change(head_->freed, head_->writers_parked, seen, options_.spin, deadline);
  }
}

void TrajectoryRing::publish(int index, RolloutTag tag) {
  auto& of = slot(index);
  const auto state = of.state.load(std::memory_order_relaxed);
  require(phase_of(state) == kWriting, "slot {} is published but was not acquired", index);
  tag.writer = writer_of(state);
  tag.number = head_->number.fetch_add(1, std::memory_order_relaxed) + 1;
  of.tag = tag;
  of.state.store(state_of(kReady, tag.writer), std::memory_order_seq_cst);
  wake_reader();
}

void TrajectoryRing::wake_reader() {
  head_->published.fetch_add(1, std::memory_order_seq_cst);
  if (head_->reader_parked.load(std::memory_order_seq_cst) != 0) futex_wake_all(head_->published);
}

// Since this writer found the ring full, the reader may have found nothing to read and parked. It
// must look again, because only the reader ends draining.
void TrajectoryRing::begin_draining() {
  if (head_->draining.exchange(1, std::memory_order_seq_cst) == 0) wake_reader();
}

bool TrajectoryRing::ready(int index) const {
  return phase_of(slot(index).state.load(std::memory_order_acquire)) == kReady;
}

// The ready slot with the lowest number, or -1. During a scan a writer may publish a rollout in a
// slot that was passed already, and its next one in a slot still ahead; the scan repeats until the
// result is stable.
int TrajectoryRing::oldest_ready() const {
  int oldest = -1;
  for (int before = -2; before != oldest;) {
    before = oldest;
    for (int i = 0; i < options_.slots; ++i)
      if (ready(i) && (oldest < 0 || slot(i).tag.number < slot(oldest).tag.number)) oldest = i;
  }
  return oldest;
}

std::optional<TrajectoryRing::Taken> TrajectoryRing::take(std::int64_t version,
                                                          std::chrono::milliseconds timeout) {
  const auto deadline = deadline_of(timeout);
  for (bool last = false;;) {
    const auto seen = head_->published.load(std::memory_order_seq_cst);
    int index = oldest_ready();
    for (int dropped = 1; index >= 0; ++dropped, index = oldest_ready()) {
      if (begin_reading(index, version)) return Taken{.slot = index, .tag = slot(index).tag};
      release(index);
      if (dropped % options_.slots == 0 && std::chrono::steady_clock::now() >= deadline) return {};
    }
    // Every ready rollout was handed out. The reader may still hold some, but it asks for more.
    end_draining();
    if (last || stopped()) return {};
    last = !await_change(head_->published, head_->reader_parked, seen, options_.spin, deadline);
    head_->reader_parked.store(0, std::memory_order_relaxed);
  }
}

// Returns whether the rollout is to be used.
bool TrajectoryRing::begin_reading(int index, std::int64_t version) {
  auto& of = slot(index);
  of.state.store(state_of(kReading, 0), std::memory_order_seq_cst);
  const bool old = version - of.tag.policy_version > options_.max_lag;
  const bool dropped = old && options_.stale == StaleRollouts::kDrop;
  counts_.stale += old;
  ++(dropped ? counts_.dropped : counts_.taken);
  return !dropped;
}

void TrajectoryRing::release(int index) {
  auto& state = slot(index).state;
  require(phase_of(state.load(std::memory_order_relaxed)) == kReading,
          "slot {} is released but was not taken", index);
  state.store(kFree, std::memory_order_seq_cst);
  if (!drains())
    wake_writers();
  else if (!unread())
    end_draining();
}

bool TrajectoryRing::unread() const {
  for (int i = 0; i < options_.slots; ++i) {
    const auto phase = phase_of(slot(i).state.load(std::memory_order_acquire));
    if (phase == kReady || phase == kReading) return true;
  }
  return false;
}

void TrajectoryRing::end_draining() {
  if (drains() && head_->draining.exchange(0, std::memory_order_seq_cst) != 0) wake_writers();
}

// The flag is not a count of waiters: a writer killed while waiting would be counted forever. The
// word changes again after the flag is lowered, for a writer that read the word after its first
// change and whose flag was lowered.
void TrajectoryRing::wake_writers() {
  head_->freed.fetch_add(1, std::memory_order_seq_cst);
  if (head_->writers_parked.load(std::memory_order_seq_cst) == 0) return;
  head_->writers_parked.store(0, std::memory_order_seq_cst);
  head_->freed.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(head_->freed);
}

void TrajectoryRing::stop() {
  head_->stopped.store(1, std::memory_order_seq_cst);
  for (auto* word : {&head_->published, &head_->freed}) {
    word->fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(*word);
  }
}

bool TrajectoryRing::stopped() const { return head_->stopped.load(std::memory_order_seq_cst) != 0; }

int TrajectoryRing::reclaim(int writer) {
  int found = 0;
  for (int i = 0; i < options_.slots; ++i) {
    auto& state = slot(i).state;
    if (state.load(std::memory_order_acquire) != state_of(kWriting, writer)) continue;
    state.store(kFree, std::memory_order_seq_cst);
    ++found;
  }
  counts_.reclaimed += found;
  wake_writers();
  return found;
}

RingCounts TrajectoryRing::counts() const {
  auto counts = counts_;
  counts.published = head_->number.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace shoal
