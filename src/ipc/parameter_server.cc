#include "shoal/ipc/parameter_server.h"

#include <algorithm>
#include <array>
#include <utility>

#include "shoal/core/error.h"

namespace shoal {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // between a trainer's checks for stop()
constexpr std::size_t kBlock = 1024;             // fits in the L1 cache

ParameterServerOptions checked(const ParameterServerOptions& o) {
  require(o.most_stale >= -1 && (o.asynchronous || o.most_stale == -1),
          "a parameter server with most_stale = {}; expected -1 (no limit), or 0 or more with "
          "asynchronous trainers",
          o.most_stale);
  return o;
}

}  // namespace

ParameterServer::ParameterServer(std::span<const float> initial,
                                 const ParameterServerOptions& options, Rule rule)
    : options_(checked(options)),
      rule_(std::move(rule)),
      field_(plan_.add_bytes(initial.size_bytes())),
      arena_(plan_),
      parameters_(reinterpret_cast<float*>(arena_.data(field_)), initial.size()),
      service_({.clients = options.trainers,
                .request_length = std::ssize(initial),
                .reply_length = options.asynchronous ? std::ssize(initial) : 0,
                .batch = options.asynchronous ? 1 : options.trainers}),
      handed_out_(static_cast<std::size_t>(options.trainers)) {
  std::ranges::copy(initial, parameters_.begin());
  if (options.asynchronous)
    for (int t = 0; t < options.trainers; ++t) hand_out(t);
}

int ParameterServer::serve(std::chrono::milliseconds timeout) {
  return service_.serve(
      [&](std::span<const int> trainers) {
        if (options_.asynchronous) return apply_one(trainers[0]);
        // Batches alternate: all gradients have arrived, then all parts of an update are done.
        updates_ += std::exchange(summed_, !summed_) ? 1 : 0;
      },
      timeout);
}

void ParameterServer::apply_one(int trainer) {
  const auto stale = updates_ - handed_out_[static_cast<std::size_t>(trainer)];
  if (options_.most_stale >= 0 && stale > options_.most_stale) {
    ++left_out_;
    return hand_out(trainer);
  }
  most_stale_ = std::max(most_stale_, stale);
  stale_ += stale;
  const auto gradient = service_.request(trainer), copy = service_.reply(trainer);
  for (std::size_t from = 0; from < gradient.size(); from += kBlock) {
    const auto n = std::min(kBlock, gradient.size() - from);
    const auto block = parameters_.subspan(from, n);
    rule_(from, block, gradient.subspan(from, n));
    std::ranges::copy(block, copy.begin() + static_cast<std::ptrdiff_t>(from));
  }
  handed_out_[static_cast<std::size_t>(trainer)] = ++updates_;
}

void ParameterServer::hand_out(int trainer) {
  std::ranges::copy(parameters_, service_.reply(trainer).begin());
  handed_out_[static_cast<std::size_t>(trainer)] = updates_;
}

// Trainer t sums part t of all gradients.
void ParameterServer::apply_part(int trainer) const {
  const auto n = parameters_.size(), parts = static_cast<std::size_t>(options_.trainers),
             part = static_cast<std::size_t>(trainer);
  const auto end = n * (part + 1) / parts;
  const float share = 1 / static_cast<float>(options_.trainers);
  std::array<float, kBlock> mean;
  for (auto from = n * part / parts; from < end; from += kBlock) {
    const auto size = std::min(kBlock, end - from);
    std::copy_n(service_.request(0).data() + from, size, mean.data());
    for (int other = 1; other < options_.trainers; ++other) {
      const auto* more = service_.request(other).data() + from;
      for (std::size_t i = 0; i < size; ++i) mean[i] += more[i];
    }
    for (std::size_t i = 0; i < size; ++i) mean[i] *= share;
    rule_(from, parameters_.subspan(from, size), std::span(mean).first(size));
  }
}

void ParameterServer::forget(int trainer) {
  require(options_.asynchronous,
          "trainer {} died in synchronous mode, where all trainers take part in an update; only "
          "asynchronous trainers can be replaced",
          trainer);
  service_.gate().forget(trainer);
  hand_out(trainer);
}

double ParameterServer::mean_stale() const {
  return updates_ == 0 ? 0 : static_cast<double>(stale_) / static_cast<double>(updates_);
}

ParameterServer::Trainer::Trainer(const ParameterServer& server, int number)
    : server_(server),
      number_(number),
      client_(server.service_.client(number)),
      parameters_(server.options_.asynchronous ? client_.reply() : server.parameters_) {}

bool ParameterServer::Trainer::push() {
  if (!ask()) return false;
  if (server_.options_.asynchronous) return true;
  server_.apply_part(number_);
  return ask();
}

bool ParameterServer::Trainer::ask() {
  if (client_.stopped()) return false;
  auto ticket = client_.submit();
  while (!ticket.wait(kLook))
    if (client_.stopped()) return false;
  return true;
}

}  // namespace shoal
