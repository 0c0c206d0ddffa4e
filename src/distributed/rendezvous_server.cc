#include "src/distributed/rendezvous_server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <random>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "src/core/print.h"
#include "src/ipc/child_process.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;

// Never 0, which is not a valid token.
std::uint64_t random_token() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random() | 1;
}

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1"; }

}  // namespace

std::uint64_t job_number(const TcpGroupOptions& options) {
  return std::hash<std::string>()(options.job);
}

std::string rendezvous_address(const TcpGroupOptions& options) {
  return fmt::format("{} port {}", options.address, options.port);
}

std::chrono::milliseconds notice_after(const TcpGroupOptions& options) {
  return std::min<std::chrono::milliseconds>(std::chrono::seconds(8), options.timeout / 2);
}

RendezvousServer::RendezvousServer(const TcpGroupOptions& options, Socket listener,
                                   std::string ring_port)
    : options_(options),
      listener_(std::move(listener)),
      ring_port_(std::move(ring_port)),
      acceptor_(listener_,
                {.record = kHelloBytes, .rejection = bytes_of(Reply{.answer = Answer::kBusy})}),
      peers_(static_cast<std::size_t>(options.count)),
      watched_(peers_.size(), pollfd{-1, POLLIN, 0}),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  require(static_cast<bool>(stop_), "cannot create an eventfd for the rendezvous");
}

RendezvousServer::~RendezvousServer() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.fd(), 1);
  thread_.join();
}

RendezvousServer::Ring RendezvousServer::admit_all(Deadline deadline) {
  auto notice = Clock::now() + notice_after(options_);
  while (const int absent = missing()) {
    if (auto arrival = acceptor_.next(std::min(deadline, notice), watched_)) {
      forget_closed();
      admit(std::move(*arrival));
      continue;
    }
    const auto now = Clock::now();
    if (now >= deadline) give_up_on(absent);
    if (now < notice) continue;
    note(fmt::format("process {} has not connected to {} yet; waiting for at most {:.0f} s", absent,
                     rendezvous_address(options_),
                     std::chrono::duration<double>(deadline - now).count()));
    notice = deadline;
  }
  return complete();
}

void RendezvousServer::give_up_on(int absent) const {
  for (const auto& peer : peers_)
    if (peer)
      send_now(peer->connection, bytes_of(Reply{.answer = Answer::kIncomplete, .rank = absent}));
  throw RankError(fmt::format("process {} of {} did not connect to {} within {:.1f} s", absent,
                              options_.count, rendezvous_address(options_),
                              std::chrono::duration<double>(options_.timeout).count()),
                  absent);
}

// The first process that has not connected; 0 if none.
int RendezvousServer::missing() {
  forget_closed();
  for (int rank = 1; rank < options_.count; ++rank)
    if (!peers_[static_cast<std::size_t>(rank)]) return rank;
  return 0;
}

void RendezvousServer::admit(Acceptor::Arrival arrival) {
  const auto hello = parse_hello(arrival.record);
  if (!hello) return;
  const auto rank = static_cast<std::size_t>(hello->rank);
  const bool joins = hello->job == job_number(options_) && hello->count == options_.count &&
                     !complete_ && rank > 0 && !peers_[rank];
  if (!joins) {
    send_now(arrival.connection, bytes_of(refusal(*hello, arrival.host)));
    return;
  }
  watched_[rank].fd = arrival.connection.fd();
  peers_[rank] = {std::move(arrival.connection), {std::move(arrival.host), hello->port}};
}

Reply RendezvousServer::refusal(const Hello& hello, const std::string& host) {
  if (hello.job != job_number(options_) || hello.count != options_.count)
    return {.answer = Answer::kOtherJob};
  if (reported_.insert(hello.rank).second)
    note(fmt::format("a second process {} connected from {} and was rejected", hello.rank, host));
  if (complete_) return {.answer = Answer::kComplete};
  const auto& first = peers_[static_cast<std::size_t>(hello.rank)];
  return {.answer = Answer::kRankTaken, .next = {first ? first->ring.host : "", ""}};
}

// Drops processes that have died, since they may be restarted. A waiting process sends nothing, so
// any event means that its connection is closed.
void RendezvousServer::forget_closed() {
  if (poll(watched_.data(), watched_.size(), 0) <= 0) return;
  for (std::size_t rank = 1; rank < watched_.size(); ++rank) {
    if (watched_[rank].revents == 0) continue;
    watched_[rank] = {-1, POLLIN, 0};
    peers_[rank].reset();
  }
}

void RendezvousServer::note(const std::string& text) const {
  print_error("note: process 0 of {}: {}\n", options_.count, text);
}

RendezvousServer::Ring RendezvousServer::complete() {
  complete_ = true;
  const Ring ring{random_token(), peers_[1]->ring};
  for (std::size_t rank = 1; rank < peers_.size(); ++rank) {
    Reply reply{.answer = Answer::kWelcome, .token = ring.token, .next = {"", ring_port_}};
    if (rank + 1 < peers_.size()) reply.next = peers_[rank + 1]->ring;
    // A loopback address means process 0's host; other hosts need its real address.
    if (is_loopback(reply.next.host)) reply.next.host.clear();
    send_now(peers_[rank]->connection, bytes_of(reply));  // neighbours detect a dead process
  }
  for (auto& peer : peers_) peer.reset();
  watched_.clear();
  const SignalsBlocked blocked;  // the main thread handles signals
  thread_ = std::thread([this] {
    try {
      answer_late_processes();
    } catch (const Interrupted&) {       // the job ends
    } catch (const std::exception& e) {  // the job can continue without this thread
      note(fmt::format("late processes are no longer answered: {}", e.what()));
    }
  });
  return ring;
}

void RendezvousServer::answer_late_processes() {
  for (;;) {
    std::array<pollfd, 1> stop{{{stop_.fd(), POLLIN, 0}}};
    auto arrival = acceptor_.next(Clock::now() + std::chrono::hours(1), stop);
    if (stop[0].revents != 0) return;
    if (arrival) admit(std::move(*arrival));
  }
}

}  // namespace shoal
