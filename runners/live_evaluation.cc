#include "shoal/runners/live_evaluation.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "shoal/data/flat.h"
#include "shoal/ipc/parameter_board.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/evaluation.h"
#include "shoal/runners/progress_file.h"
#include "src/core/print.h"

namespace shoal {
namespace {

// Time of publication of parameters. Stored before the parameters on the board, and in the result.
struct Moment {
  std::int64_t steps;
  double seconds;
};
struct Result {
  Moment of;
  std::int64_t episodes;
  double mean, std;
};

template <class T>
std::span<std::byte> bytes_in(T& plain) {
  return std::as_writable_bytes(std::span(&plain, 1));
}

// The process runs only on cores that are otherwise idle.
void take_the_lowest_priority() {
  const sched_param none{};
  // Neither needs privileges; the second is for kernels without the first.
  if (::sched_setscheduler(0, SCHED_IDLE, &none) != 0) (void)!::nice(19);
}

using Clock = std::chrono::steady_clock;

// Evaluates in a process of its own. After every few steps it sleeps for as long as they took,
// because even a process of the lowest priority slows others through shared caches and
// hyper-threads.
//
// The boards carry parameters one way and results the other; neither side waits.
class LiveEvaluation : public LogSink {
 public:
  LiveEvaluation(const EnvFactory& make_env, Agent& agent, const std::filesystem::path& folder,
                 const LiveEvaluationOptions& options)
      : agent_(agent),
        file_(folder / kEvaluationFile),
        options_(options),
        flat_(sizeof(Moment) + bytes_of(agent.parameters())),
        parameters_memory_(plan_.add_bytes(ParameterBoard::bytes(flat_.size()))),
        results_memory_(plan_.add_bytes(ParameterBoard::bytes(sizeof(Result)))),
        arena_(plan_),
        parameters_(arena_.data(parameters_memory_), flat_.size()),
        results_(arena_.data(results_memory_), sizeof(Result)),
        group_(1, [&](int, WorkerStatus) { evaluate_for_ever(make_env); }) {}

  void write(const LogRow& row) override {
    if (!alive_) return;
    try {
      group_.check();
    } catch (const WorkerDataError&) {
      throw;  // as in training
    } catch (const WorkerError& e) {
      alive_ = false;
      print_error("live evaluation has ended, training continues: {}\n", e.what());
      return;
    }
    Result result;
    if (results_.read(bytes_in(result), result_version_)) {
      busy_ = false;
      record(result);
    }
    const double now = row.seconds();
    if (busy_ || now < next_) return;
    publish({.steps = row.steps, .seconds = now});
    busy_ = true;
    next_ = now + options_.seconds;
  }

  void sync() override {
    if (open_) table_.sync();
  }

 private:
  void publish(const Moment& moment) {
    std::memcpy(flat_.data(), &moment, sizeof moment);
    flatten(agent_.parameters(), std::span(flat_).subspan(sizeof moment));
    parameters_.publish(flat_);
  }

  void record(const Result& result) {
    if (!open_) {
      if (std::filesystem::exists(file_))  // of the run that is resumed
        table_.resume(file_, result.of.steps);
      else
        table_.open(file_);
    }
    open_ = true;
    table_.write({.steps = result.of.steps,
                  .numbers = {{"seconds", result.of.seconds},
                              {"episodes", static_cast<double>(result.episodes)},
                              {"return_mean", result.mean},
                              {"return_std", result.std}}});
  }

  [[noreturn]] void evaluate_for_ever(const EnvFactory& make_env) {
    constexpr std::chrono::milliseconds kPause{20};
    take_the_lowest_priority();
    Evaluator evaluator(make_env, agent_,
                        {.episodes = options_.episodes,
                         .seed = options_.seed,
                         .kind = SamplerKind::kSerial,
                         .horizon = 16,
                         .reset_limit = std::chrono::hours(24)});  // it may have to wait for a core
    for (std::uint64_t version = 0;;) {
      if (!parameters_.read(flat_, version)) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      Result result;
      std::memcpy(&result.of, flat_.data(), sizeof result.of);
      unflatten(std::span(flat_).subspan(sizeof result.of), agent_.parameters());
      agent_.parameters_changed();
      auto before = Clock::now();
      const auto played = evaluator.run([&] {
        std::this_thread::sleep_for(Clock::now() - before);
        before = Clock::now();
        return false;
      });
      result.episodes = played.episodes;
      result.mean = played.mean_return;
      result.std = played.std_return;
      results_.publish(bytes_in(result));
    }
  }

  Agent& agent_;  // a copy in the evaluating process
  std::filesystem::path file_;
  LiveEvaluationOptions options_;
  std::vector<std::byte> flat_;  // parameters in transit
  Arena::Plan plan_;
  Arena::Field parameters_memory_, results_memory_;
  Arena arena_;
  ParameterBoard parameters_, results_;
  std::uint64_t result_version_ = 0;
  bool alive_ = true, busy_ = false, open_ = false;
  double next_ = -std::numeric_limits<double>::infinity();
  ProgressFile table_;
  WorkerGroup group_;  // last: it forks
};

}  // namespace

std::unique_ptr<LogSink> make_live_evaluation(const EnvFactory& make_env, Agent& agent,
                                              const std::filesystem::path& folder,
                                              const LiveEvaluationOptions& options) {
  require(options.seconds >= 0, "seconds between evaluations: found {}, expected 0 or more",
          options.seconds);
  return std::make_unique<LiveEvaluation>(make_env, agent, folder, options);
}

}  // namespace shoal
