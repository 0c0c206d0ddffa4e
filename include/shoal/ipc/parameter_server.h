#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/ipc/batch_service.h"

namespace shoal {

struct ParameterServerOptions {
  int trainers = 1;
  // False: an update uses the mean of all trainers' gradients, and all continue with its result
  // (synchronous SGD). True: each gradient is an update of its own, at once, and no trainer waits
  // for others.
  bool asynchronous = false;
  // Asynchronous: a gradient is discarded if its staleness, the number of updates since its
  // parameters were handed out, exceeds this (staleness-aware SGD: Zhang et al., arXiv 1511.05950).
  // -1: no limit.
  std::int64_t most_stale = -1;
};

// Parameters that processes on one machine train together: a server process holds them in shared
// memory, and trainers write their gradients there in place.
//
//   ParameterServer server(initial, {.trainers = 4}, sgd);
//   WorkerGroup trainers(4, [&](int w, WorkerStatus) {
//     auto trainer = server.trainer(w);
//     do {
//       ...                              // trainer.parameters() -> trainer.gradient()
//     } while (trainer.push());
//   });
//   while (server.updates() < wanted)
//     if (server.serve(200ms) == 0) trainers.check();
//
// Construct it before the fork. A trainer may be killed at any moment. Synchronous trainers then
// wait for it until the server, whose serve() returns 0, stops them; asynchronous ones continue,
// and after forget() another process may use its number.
class ParameterServer {
 public:
  // Updates a block of the parameters, starting at index `from`, with its gradient. Called once per
  // block: in synchronous mode by the trainers, each for its part of the parameters, otherwise by
  // the server. Optimizer state must be in shared memory.
  using Rule = std::function<void(std::size_t from, std::span<float> parameters,
                                  std::span<const float> gradient)>;

  // Throws Error for invalid options.
  ParameterServer(std::span<const float> initial, const ParameterServerOptions& options, Rule rule);

  // As of the last update; see in_update().
  std::span<const float> parameters() const { return parameters_; }

  class Trainer {
   public:
    // The newest parameters when push() returned; they do not change until the next push().
    std::span<const float> parameters() const { return parameters_; }
    std::span<float> gradient() const { return client_.request(); }
    // Sends the gradient and waits for parameters. False once the server is stopped.
    bool push();

   private:
    friend class ParameterServer;
    Trainer(const ParameterServer& server, int number);
    bool ask();

    const ParameterServer& server_;
    int number_;
    BatchService<float, float>::Client client_;
    std::span<const float> parameters_;
  };
  // Call it in the process that uses the trainer; each number once, from 0.
  Trainer trainer(int number) const { return {*this, number}; }

  // The server only. Waits for gradients; in synchronous mode alternately for gradients and for the
  // parts of an update. Returns the number of trainers served; 0 after the timeout: then check for
  // deaths.
  int serve(std::chrono::milliseconds timeout);
  // The server only, asynchronous, once this trainer is dead: another process may use its number.
  void forget(int trainer);
  // The server only: ends every push(), now and later.
  void stop() { service_.gate().stop(); }

  // The server only, synchronous: trainers are applying an update that is not counted yet. If one
  // dies now, only part of the parameters is updated.
  bool in_update() const { return summed_; }

  // The server only. Counts so far:
  std::int64_t updates() const { return updates_; }
  std::int64_t left_out() const { return left_out_; }  // gradients discarded for their staleness
  // Staleness of the applied gradients; 0 in synchronous mode.
  std::int64_t most_stale() const { return most_stale_; }
  double mean_stale() const;

 private:
  void hand_out(int trainer);
  void apply_one(int trainer);
  void apply_part(int trainer) const;

  ParameterServerOptions options_;
  Rule rule_;
  Arena::Plan plan_;
  Arena::Field field_;
  Arena arena_;
  std::span<float> parameters_;
  BatchService<float, float> service_;
  std::vector<std::int64_t> handed_out_;  // number of updates in each trainer's parameters
  std::int64_t updates_ = 0, left_out_ = 0, most_stale_ = 0, stale_ = 0;
  bool summed_ = false;  // synchronous: all gradients have arrived and are being applied
};

}  // namespace shoal
