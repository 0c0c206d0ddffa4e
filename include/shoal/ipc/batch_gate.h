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
  int yields = 0;  // after that, calls of sched_yield() before parking
};

// Requests of many clients in shared memory, answered by one server in batches. The caller provides
// the memory of requests and replies: fields of the arena for each client, written and read in
// place.
//
//   client:  write the request  ->  ticket = submit(client)  ->  wait(ticket)  ->  read the reply
//   server:  clients = gather(size, patience, timeout)  ->  read theirs, write replies  -> finish()
//
// submit() does not block; the client may do other work before it waits. A client has one request
// outstanding; a process that needs several uses several clients. The server sleeps until as many
// requests have arrived as it asked for: the last one wakes it, and a single wake-up answers the
// whole batch.
//
// Writes before submit() are visible after gather(), writes before finish() after wait() or
// ready().
//
// A client may be killed at any moment: its state is a single word, so a request is either complete
// or absent. If the dead client should have woken the server, the server looks again when its
// timeout expires. Every wait has a timeout (at most a day), after which the waiter can check for
// deaths.
//
// An object is a handle: each process or thread uses its own copy.
class BatchGate {
 public:
  static std::size_t bytes(int clients);  // memory needed, without requests and replies

  // Constructs the words in `memory` (64-byte aligned, at least bytes(options.clients)); call once,
  // before the fork. Throws Error for fewer than one client or more than 65,535.
  BatchGate(std::byte* memory, const BatchGateOptions& options);

  // The newest request of a client.
  struct Ticket {
    int client = 0;
    std::uint32_t number = 0;
  };

  // Clients only, each with its own number, from 0. Throws Error if the client's last request has
  // not been answered.
  Ticket submit(int client);
  // The client only. Whether the request is answered. Throws Error unless the ticket is its newest.
  bool ready(Ticket ticket) const;
  // The client only. True once the request is answered; false after the timeout or stop().
  bool wait(Ticket ticket, std::chrono::milliseconds timeout);
  // The newest request, for a process that takes over as this client.
  Ticket newest(int client) const;
  // Whether the server keeps the client's request to answer it later: see keep().
  bool keeps(int client) const;

  static constexpr std::chrono::microseconds kNoLimit = std::chrono::hours(24);

  // The server only. Returns the next batch: `size` clients (at most all), or all that have arrived
  // once `patience` has passed since the server saw the first of them (0: at once). Empty after the
  // timeout or stop(); requests that have arrived remain. The order is by number, starting after
  // the last client served, so that no client starves. Valid until the next call, which returns
  // unfinished clients again.
  std::span<const int> gather(int size, std::chrono::microseconds patience,
                              std::chrono::milliseconds timeout);
  // The server only. Answers the gathered clients.
  void finish();
  // The alternative to finish(): these clients keep waiting until finish(clients), while the server
  // gathers others.
  void keep();
  void finish(std::span<const int> clients);

  // The server only, once this client is dead and before another process uses its number: discards
  // its unanswered request.
  void forget(int client);

  // Any process. Ends all waits, and later calls do not wait.
  void stop();
  bool stopped() const;

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
  std::vector<int> gathered_;       // the server's batch
  int next_ = 0;                    // where the server's search begins
  Clock::time_point first_seen_{};  // when the server found the first of the waiting requests
  bool any_seen_ = false;
};

}  // namespace shoal
