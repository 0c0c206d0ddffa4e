#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal {

struct BatchGateOptions {
  int clients = 1;
  int spin = 0;    // polls before parking: see default_spin()
  int yields = 0;  // after that, and still before parking, times to give the core to others
};

// Requests of many clients, answered by one server in batches of whoever has arrived, in shared
// memory. Requests and replies are the caller's: places in the arena for each client, written and
// read where they lie.
//
//   client:  write the request  ->  ticket = submit(client)  ->  wait(ticket)  ->  read the reply
//   server:  clients = gather(size, patience, timeout)  ->  read theirs, write replies  -> finish()
//
// submit() does not block: the client may do something else before it waits. A client has one
// request under way; a process that wants several is several clients. The server sleeps until as
// many have arrived as it asks for: the last of them wakes it, and one wake answers all.
//
// Everything written before submit() is visible after gather(), everything written before finish()
// after wait() or ready().
//
// A client may be killed at any moment: its state is a single word, so it has either asked, and the
// request is whole, or it has not. If the server should have been woken just then, it looks again
// at the end of its timeout. Every wait ends after its timeout (of at most a day), so that the
// waiter can look for deaths.
//
// An object is a handle: each process or thread uses a copy of its own.
class BatchGate {
 public:
  static std::size_t bytes(int clients);  // memory it needs, beside requests and replies

  // Constructs the words in `memory` (64-byte aligned, at least bytes(options.clients)); call once,
  // before the fork. Throws Error for fewer than one client, or more than 65,535.
  BatchGate(std::byte* memory, const BatchGateOptions& options);

  // A request that a client has made, the newest of its own.
  struct Ticket {
    int client = 0;
    std::uint32_t number = 0;
  };

  // Clients only, each with a number of its own, from 0. Throws Error if its last request has not
  // been answered.
  Ticket submit(int client);
  // The client only. Whether it is answered. Throws Error for a ticket that is not its newest.
  bool ready(Ticket ticket) const;
  // The same, once it is; false after the timeout, or once the gate is stopped.
  bool wait(Ticket ticket, std::chrono::milliseconds timeout);
  // Its newest request, for a process that goes on as this client.
  Ticket newest(int client) const;

  static constexpr std::chrono::microseconds kNoLimit = std::chrono::hours(24);

  // The server only. Who is to be served next: `size` clients (at most all), or those that are
  // there when the server has known of the first of them for `patience` (0: it takes whoever is
  // there). Nobody after the timeout, or once the gate is stopped; who has arrived by then stays.
  // In the order of their numbers, from the one after the last that was served on, so that none
  // starves. Valid until the next call; those that are not finished by then have arrived still.
  std::span<const int> gather(int size, std::chrono::microseconds patience,
                              std::chrono::milliseconds timeout);
  // The server only. Answers those that it gathered.
  void finish();
  // Instead of that: keeps them waiting, while it gathers others, until finish(clients).
  void keep();
  void finish(std::span<const int> clients);

  // The server only, once this client is dead and before another one uses its number: what it has
  // asked for and has not been answered is gone.
  void forget(int client);

  // Anybody. No wait begins from now on, and those under way end.
  void stop();
  bool stopped() const;

  int clients() const { return options_.clients; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Head;
  struct Slot;
  Slot& slot(int client) const;
  void collect(int size);
  void set(int client, std::uint32_t request);
  void park_until(std::uint32_t wanted, Clock::time_point deadline);

  Head* head_;
  BatchGateOptions options_;
  std::vector<int> gathered_;       // by the server
  int next_ = 0;                    // where it begins to look
  Clock::time_point first_seen_{};  // when it found the first of those that are there now
  bool any_seen_ = false;
};

}  // namespace shoal
