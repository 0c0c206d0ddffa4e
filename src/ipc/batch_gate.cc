#include "shoal/ipc/batch_gate.h"

#include <algorithm>
#include <new>

#include "shoal/core/error.h"
#include "src/ipc/waiting.h"

namespace shoal {

namespace {

// A client's state: the number of its newest request, and that request's status.
enum Request : std::uint32_t { kNothing, kAsked, kAnswered, kKept };
constexpr std::uint32_t client_state(std::uint32_t number, Request request) {
  return number << 2 | request;
}
constexpr std::uint32_t number_of(std::uint32_t state) { return state >> 2; }
constexpr Request request_of(std::uint32_t state) { return static_cast<Request>(state & 3); }

constexpr int kMostClients = 65'535;
constexpr std::uint32_t kNotParked = 0;

// For counts that wrap around.
bool reached(std::uint32_t count, std::uint32_t wanted) {
  return static_cast<std::int32_t>(count - wanted) >= 0;
}

// Clients that share a bit wake together and look again.
std::uint32_t bit_of(int client) { return 1U << (client % 32); }

// Whether ready() comes true before the time to park.
template <class Ready>
bool comes_soon(const Word& word, const BatchGateOptions& options,
                std::chrono::steady_clock::time_point deadline, const Ready& ready) {
  return poll(word, options.spin, ready) || poll_yielding(word, options.yields, deadline, ready);
}

const BatchGateOptions& checked(const BatchGateOptions& options) {
  require(options.clients >= 1 && options.clients <= kMostClients,
          "a batch gate for {} clients; expected 1 to {}", options.clients, kMostClients);
  return options;
}

}  // namespace

struct BatchGate::Head {
  alignas(64) Word arrived{0};          // approximate number of requests; the server parks on it
  alignas(64) Word wanted{kNotParked};  // the count at which to wake the parked server
  alignas(64) Word answered{0};         // number of batches; clients park on it
  alignas(64) Word stopped{0};
};

struct alignas(64) BatchGate::Slot {
  Word state{client_state(0, kNothing)};
  Word parked{0};
};

std::size_t BatchGate::bytes(int clients) {
  return sizeof(Head) + static_cast<std::size_t>(clients) * sizeof(Slot);
}

BatchGate::BatchGate(std::byte* memory, const BatchGateOptions& options)
    : options_(checked(options)) {
  head_ = new (memory) Head;
  for (int i = 0; i < options.clients; ++i) new (&slot(i)) Slot;
}

BatchGate::Slot& BatchGate::slot(int client) const {
  return reinterpret_cast<Slot*>(head_ + 1)[client];
}

// The state decides; `arrived` only tells when to wake the server. It is incremented after the
// state is written, so every client that the server's scan missed has yet to increment it.
BatchGate::Ticket BatchGate::submit(int client) {
  require(client >= 0 && client < options_.clients, "client {}: expected a number from 0 to {}",
          client, options_.clients - 1);
  auto& state = slot(client).state;
  const auto before = state.load(std::memory_order_relaxed);
  require(
      request_of(before) != kAsked && request_of(before) != kKept,
      "client {} submits a request before its last one is answered: wait for the answer, or, if "
      "another process was this client and died, let the server forget() it",
      client);
  const auto asked = client_state(number_of(before) + 1, kAsked);
  state.store(asked, std::memory_order_seq_cst);
  const auto count = head_->arrived.fetch_add(1, std::memory_order_seq_cst) + 1;
  const auto wanted = head_->wanted.load(std::memory_order_seq_cst);
  if (wanted != kNotParked && reached(count, wanted)) futex_wake_all(head_->arrived);
  return {.client = client, .number = number_of(asked)};
}

bool BatchGate::ready(Ticket ticket) const {
  const auto state = slot(ticket.client).state.load(std::memory_order_seq_cst);
  require(number_of(state) == ticket.number, "ticket {} of client {} is outdated; its newest is {}",
          ticket.number, ticket.client, number_of(state));
  return request_of(state) == kAnswered;
}

BatchGate::Ticket BatchGate::newest(int client) const {
  return {.client = client,
          .number = number_of(slot(client).state.load(std::memory_order_seq_cst))};
}

bool BatchGate::keeps(int client) const {
  return request_of(slot(client).state.load(std::memory_order_seq_cst)) == kKept;
}

bool BatchGate::wait(Ticket ticket, std::chrono::milliseconds timeout) {
  auto& own = slot(ticket.client);
  const auto answered = [&](std::uint32_t state) {
    return state == client_state(ticket.number, kAnswered);
  };
  const auto deadline = deadline_of(timeout);
  if (ready(ticket) || comes_soon(own.state, options_, deadline, answered)) return true;
  own.parked.store(1, std::memory_order_seq_cst);
  bool done = false;
  for (;;) {
    const auto seen = head_->answered.load(std::memory_order_seq_cst);
    done = ready(ticket);
    if (done || stopped() || Clock::now() >= deadline) break;
    futex_wait_for(head_->answered, seen, deadline, bit_of(ticket.client));
  }
  own.parked.store(0, std::memory_order_relaxed);
  return done;
}

// Finds the clients that have arrived, up to `size`.
void BatchGate::collect(int size) {
  gathered_.clear();
  gathered_.reserve(static_cast<std::size_t>(options_.clients));  // a copied handle has no capacity
                                                                  // yet
  for (int i = 0; i < options_.clients && static_cast<int>(gathered_.size()) < size; ++i) {
    const int client = (next_ + i) % options_.clients;
    if (request_of(slot(client).state.load(std::memory_order_seq_cst)) == kAsked)
      gathered_.push_back(client);
  }
}

std::span<const int> BatchGate::gather(int size, std::chrono::microseconds patience,
                                       std::chrono::milliseconds timeout) {
  require(size >= 1 && size <= options_.clients,
          "a batch of {} clients; expected 1 to {} (all clients)", size, options_.clients);
  patience = std::min(patience, kNoLimit);
  const auto deadline = deadline_of(timeout);
  for (bool last = false;;) {
    const auto count = head_->arrived.load(std::memory_order_seq_cst);
    collect(stopped() ? 0 : size);
    const auto now = Clock::now();
    const int here = static_cast<int>(gathered_.size());
    if (here == 0 || !any_seen_) first_seen_ = now;
    any_seen_ = here > 0;
    if (here == size || (here > 0 && now >= first_seen_ + patience)) {
      any_seen_ = false;
      next_ = gathered_.back() + 1;
      return gathered_;
    }
    if (last || stopped()) break;
    const bool wants_first = here == 0 && patience < kNoLimit;
    const auto until = here > 0 ? std::min(deadline, first_seen_ + patience) : deadline;
    park_until(count + static_cast<std::uint32_t>(wants_first ? 1 : size - here), until);
    last = Clock::now() >= deadline;
  }
  gathered_.clear();
  return {};
}

// Sleeps until the count is reached or the gate is stopped. If a client died between the write of
// its state and the increment, the count is off by one, which costs a spurious wake-up or the rest
// of the timeout.
void BatchGate::park_until(std::uint32_t wanted, Clock::time_point deadline) {
  if (wanted == kNotParked) --wanted;  // waking one request early is harmless
  const auto ready = [&](std::uint32_t count) { return reached(count, wanted) || stopped(); };
  if (comes_soon(head_->arrived, options_, deadline, ready)) return;
  head_->wanted.store(wanted, std::memory_order_seq_cst);
  park(head_->arrived, deadline, ready);
  head_->wanted.store(kNotParked, std::memory_order_relaxed);
}

void BatchGate::set(int client, std::uint32_t request) {
  auto& state = slot(client).state;
  const auto number = number_of(state.load(std::memory_order_relaxed));
  state.store(client_state(number, static_cast<Request>(request)), std::memory_order_seq_cst);
}

void BatchGate::finish() {
  finish(gathered_);
  gathered_.clear();
}

void BatchGate::keep() {
  for (const int client : gathered_) set(client, kKept);
  gathered_.clear();
}

// A `parked` flag left by a killed client costs a spurious wake-up.
void BatchGate::finish(std::span<const int> clients) {
  for (const int client : clients) set(client, kAnswered);
  head_->answered.fetch_add(1, std::memory_order_seq_cst);
  std::uint32_t bits = 0;
  for (const int client : clients)
    if (slot(client).parked.load(std::memory_order_seq_cst) != 0) bits |= bit_of(client);
  if (bits != 0) futex_wake(head_->answered, bits);
}

void BatchGate::forget(int client) {
  auto& of = slot(client);
  const auto state = of.state.load(std::memory_order_acquire);
  if (request_of(state) == kAsked || request_of(state) == kKept)
    of.state.store(client_state(number_of(state), kNothing), std::memory_order_seq_cst);
  of.parked.store(0, std::memory_order_seq_cst);
  std::erase(gathered_, client);
}

void BatchGate::stop() {
  head_->stopped.store(1, std::memory_order_seq_cst);
  for (auto* word : {&head_->arrived, &head_->answered}) {
    word->fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(*word);
  }
}

bool BatchGate::stopped() const { return head_->stopped.load(std::memory_order_seq_cst) != 0; }

}  // namespace shoal
