#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/ipc/batch_gate.h"
#include "shoal/ipc/step_barrier.h"

namespace shoal {

struct BatchServiceOptions {
  int clients = 1;
  std::int64_t request_length = 1;  // per client, in elements of Request
  std::int64_t reply_length = 1;    // per client, in elements of Reply; 0: clients read results
                                    // elsewhere
  int batch = 0;                    // clients per batch; 0: all
  // Maximum time that waiting clients are held back for a full batch.
  std::chrono::microseconds patience = BatchGate::kNoLimit;
};

// A BatchGate with memory for requests and replies: one process serves the others, in batches.
//
//   BatchService<float, std::int64_t> service({.clients = 8, .request_length = 4});
//   WorkerGroup workers(8, [&](int w, WorkerStatus) {
//     auto client = service.client(w);
//     for (;;) {
//       ...                                  // write client.request(), in place
//       auto ticket = client.submit();       // does not block
//       while (!ticket.wait(200ms)) {}       // client.reply() is there
//     }
//   });
//   while (...)
//     if (service.serve(answer, 200ms) == 0) workers.check();
//
// Construct it before the fork. The requests of all clients are contiguous, and so are the replies:
// the server may treat each as one array [clients, length].
template <class Request, class Reply>
class BatchService {
  static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>,
                "requests and replies lie in memory that processes share");

 public:
  class Client;

  // The future of one request. The client that made the request uses it, and outlives it.
  class Ticket {
   public:
    using Callback = std::function<void(std::span<const Reply>)>;

    // wait() or poll() calls f(reply) once it has the reply; several callbacks run in the order in
    // which they were chained. `auto ticket = client.submit().then(f);`
    Ticket then(Callback f) && {
      callbacks_.push_back(std::move(f));
      return std::move(*this);
    }
    // Whether the reply has arrived; if so, calls the callbacks.
    bool poll() { return take(client_->gate_.ready(ticket_)); }
    // The same, but waits for it; false after the timeout or once the service is stopped.
    bool wait(std::chrono::milliseconds timeout) {
      return take(client_->gate_.wait(ticket_, timeout));
    }

    Ticket(Ticket&&) noexcept = default;
    Ticket& operator=(Ticket&&) noexcept = default;

   private:
    friend class Client;
    Ticket(Client* client, BatchGate::Ticket ticket) : client_(client), ticket_(ticket) {}
    bool take(bool answered) {
      if (answered)
        for (const auto& call : std::exchange(callbacks_, {})) call(client_->reply());
      return answered;
    }

    Client* client_;
    BatchGate::Ticket ticket_;
    std::vector<Callback> callbacks_;
  };

  // One request at a time; a process that needs several outstanding uses several clients.
  class Client {
   public:
    // Write it before submit(), and do not change it until the reply has arrived.
    std::span<Request> request() const { return request_; }
    // Valid from the arrival of the reply until the next submit().
    std::span<const Reply> reply() const { return reply_; }
    Ticket submit() { return Ticket(this, gate_.submit(number_)); }
    bool stopped() const { return gate_.stopped(); }

   private:
    friend class BatchService;
    friend class Ticket;
    Client(const BatchService& service, int number)
        : gate_(service.gate_),
          number_(number),
          request_(service.request(number)),
          reply_(service.reply(number)) {}

    BatchGate gate_;
    int number_;
    std::span<Request> request_;
    std::span<Reply> reply_;
  };

  // Throws Error for an invalid number of clients or length.
  explicit BatchService(const BatchServiceOptions& options)
      : options_(checked(options)),
        words_(plan_.add_bytes(BatchGate::bytes(options_.clients))),
        requests_(plan_.add_bytes(bytes_of<Request>(options_.request_length))),
        replies_(plan_.add_bytes(bytes_of<Reply>(options_.reply_length))),
        arena_(plan_),
        gate_(arena_.data(words_), {.clients = options_.clients,
                                    .spin = std::min(default_spin(options_.clients + 1), kSpin),
                                    .yields = kYields}) {}

  // Call it in the process that uses the client; each number once, from 0.
  Client client(int number) const {
    require(number >= 0 && number < options_.clients, "client {}: expected a number from 0 to {}",
            number, options_.clients - 1);
    return Client(*this, number);
  }

  // The server only. Waits for a batch, calls answer(numbers of its clients), which reads their
  // requests and writes their replies, and wakes the clients. Returns the size of the batch; 0
  // after the timeout: then check for deaths with WorkerGroup::check(). If `answer` throws, the
  // clients stay unanswered and are gathered again, perhaps after others.
  template <class Answer>
  int serve(const Answer& answer, std::chrono::milliseconds timeout) {
    const auto clients = gate_.gather(options_.batch, options_.patience, timeout);
    const auto served = static_cast<int>(clients.size());
    if (served == 0) return 0;
    answer(clients);
    gate_.finish();
    return served;
  }

  std::span<Request> request(int client) const {
    return place<Request>(requests_, options_.request_length, client);
  }
  std::span<Reply> reply(int client) const {
    return place<Reply>(replies_, options_.reply_length, client);
  }
  // Those of all clients.
  std::span<Request> requests() const {
    return {request(0).data(),
            static_cast<std::size_t>(options_.clients * options_.request_length)};
  }
  std::span<Reply> replies() const {
    return {reply(0).data(), static_cast<std::size_t>(options_.clients * options_.reply_length)};
  }

  // For forget() and stop().
  BatchGate& gate() { return gate_; }

 private:
  // Spins for a few microseconds if each process has its own core, then yields for about 0.1 ms.
  // Longer spinning would take the core from the awaited process when other jobs occupy the other
  // cores.
  static constexpr int kSpin = 100, kYields = 200;

  static BatchServiceOptions checked(BatchServiceOptions options) {
    require(options.clients >= 1, "a batch service for {} clients; expected at least 1",
            options.clients);
    require(options.request_length >= 0 && options.reply_length >= 0,
            "a batch service with requests of {} and replies of {} elements; expected 0 or more",
            options.request_length, options.reply_length);
    require(options.batch >= 0 && options.batch <= options.clients,
            "a batch service with batches of {}; expected 1 to {} (all clients), or 0 for all",
            options.batch, options.clients);
    if (options.batch == 0) options.batch = options.clients;
    return options;
  }
  template <class T>
  std::size_t bytes_of(std::int64_t length) const {
    return static_cast<std::size_t>(options_.clients * length) * sizeof(T);
  }
  template <class T>
  std::span<T> place(const Arena::Field& field, std::int64_t length, int client) const {
    return {reinterpret_cast<T*>(arena_.data(field)) + client * length,
            static_cast<std::size_t>(length)};
  }

  BatchServiceOptions options_;
  Arena::Plan plan_;
  Arena::Field words_, requests_, replies_;
  Arena arena_;
  BatchGate gate_;
};

}  // namespace shoal
