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
  // False: an update is made of the mean of all trainers' gradients, and all go on with what it
  // makes (synchronous SGD). True: each gradient is an update of its own, at once, and nobody waits
  // for other trainers.
  bool asynchronous = false;
  // Asynchronous: a gradient is left out if more updates than these were made since the parameters
  // it was found with (staleness-aware, as Zhang et al., arXiv 1511.05950, measure it). -1: none
  // is.
  std::int64_t most_stale = -1;
};

// Parameters that processes on one machine train together: a server process has them, in shared
// memory, and each trainer writes its gradients where they are read.
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
// Make it before the fork. A trainer may be killed at any moment: synchronous ones then wait for
// it, and the server, whose serve() returns 0, ends them; asynchronous ones go on, and forget()
// lets another process have its number.
class ParameterServer {
 public:
  // An update of some of the parameters, of which the first is number `from`, by their gradient.
  // For each block of them once: synchronously by the trainers, each for a part of the parameters,
  // otherwise by the server. What it remembers from update to update must be in shared memory.
  using Rule = std::function<void(std::size_t from, std::span<float> parameters,
                                  std::span<const float> gradient)>;

  // Throws Error for options that make no sense.
  ParameterServer(std::span<const float> initial, const ParameterServerOptions& options, Rule rule);

  // As of the last update, but for what in_update() says.
  std::span<const float> parameters() const { return parameters_; }

  class Trainer {
   public:
    // The newest when push() returned; they stay as they are until the next.
    std::span<const float> parameters() const { return parameters_; }
    std::span<float> gradient() const { return client_.request(); }
    // Hands the gradient over and waits for parameters. False once the server is stopped.
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
  // In the process that uses it, each number once, from 0.
  Trainer trainer(int number) const { return {*this, number}; }

  // The server only. Waits for gradients, or synchronously for the parts of an update, by turns;
  // how many trainers were served, 0 if the timeout was over before: look for deaths then.
  int serve(std::chrono::milliseconds timeout);
  // The server only, once this trainer is dead, asynchronous: another one may have its number.
  void forget(int trainer);
  // The server only: ends every push(), now and from now on.
  void stop() { service_.gate().stop(); }

  // The server only. Synchronously: trainers are applying an update that is not counted yet. If one
  // of them dies then, some parameters are as before it and some as after it.
  bool in_update() const { return summed_; }

  // The server only. So far:
  std::int64_t updates() const { return updates_; }
  std::int64_t left_out() const { return left_out_; }  // gradients, for their staleness
  // Updates between the parameters that a gradient was found with and its own, of all that were not
  // left out; synchronously 0.
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
  std::vector<std::int64_t> handed_out_;  // how many updates each trainer's parameters have seen
  std::int64_t updates_ = 0, left_out_ = 0, most_stale_ = 0, stale_ = 0;
  bool summed_ = false;  // synchronous: all gradients are there, and are being applied
};

}  // namespace shoal
