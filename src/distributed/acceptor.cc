#include "src/distributed/acceptor.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kNoFilesPause = 50ms;  // between tries of accept() when file descriptors run out

}  // namespace

Acceptor::Acceptor(const Socket& listener, AcceptorOptions options)
    : listener_(listener), options_(std::move(options)) {}

std::optional<Acceptor::Arrival> Acceptor::next(Deadline deadline, std::span<pollfd> others) {
  for (;;) {
    if (!complete_.empty()) {
      auto first = std::move(complete_.front());
      complete_.erase(complete_.begin());
      return first;
    }
    const auto now = Clock::now();
    if (now >= deadline) return std::nullopt;
    std::vector<pollfd> all{{now < accepts_after_ ? -1 : listener_.fd(), POLLIN, 0}};
    for (const auto& pending : pending_)
      all.push_back({pending.arrival.connection.fd(), POLLIN, 0});
    all.insert(all.end(), others.begin(), others.end());
    auto until = deadline;
    if (!pending_.empty()) until = std::min(until, pending_.front().deadline);
    if (now < accepts_after_) until = std::min(until, accepts_after_);
    const bool any = wait_for(all, until);
    const auto own = std::span(all).first(all.size() - others.size());
    std::copy(all.end() - std::ssize(others), all.end(), others.begin());
    if (any) {
      read_ready(own.subspan(1));
      if (own[0].revents != 0) accept_waiting();
    }
    close_late();
    if (any && std::ranges::any_of(others, [](const pollfd& p) { return p.revents != 0; }))
      return std::nullopt;
  }
}

// Limited to options_.most at a time, so that pending connections are read in between.
void Acceptor::accept_waiting() {
  for (std::size_t i = 0; i < options_.most; ++i) {
    auto connection = accept_now(listener_);
    if (!connection) {
      const bool no_files = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
      if (no_files && !close_oldest()) accepts_after_ = Clock::now() + kNoFilesPause;
      return;
    }
    auto host = peer_address(*connection);
    if (host.empty()) continue;  // already closed
    if (pending_.size() >= options_.most) close_oldest();
    Pending pending{{std::move(*connection), std::move(host), {}},
                    Clock::now() + options_.patience};
    pending.arrival.record.resize(options_.record);
    if (read(pending)) pending_.push_back(std::move(pending));
  }
}

bool Acceptor::close_oldest() {
  if (pending_.empty()) return false;
  send_now(pending_.front().arrival.connection, options_.rejection);
  pending_.erase(pending_.begin());
  return true;
}

void Acceptor::close_late() {
  while (!pending_.empty() && pending_.front().deadline <= Clock::now()) close_oldest();
}

// False if the record is complete, and moved to complete_, or the connection is closed.
bool Acceptor::read(Pending& pending) {
  auto& [arrival, deadline, received] = pending;
  const auto rest = std::span(arrival.record).subspan(received);
  const auto bytes = recv(arrival.connection.fd(), rest.data(), rest.size(), MSG_DONTWAIT);
  if (bytes < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (bytes == 0) return false;
  received += static_cast<std::size_t>(bytes);
  if (received < arrival.record.size()) return true;
  complete_.push_back(std::move(arrival));
  return false;
}

void Acceptor::read_ready(std::span<const pollfd> ready) {
  std::vector<Pending> rest;
  for (std::size_t i = 0; i < pending_.size(); ++i)
    if (ready[i].revents == 0 || read(pending_[i])) rest.push_back(std::move(pending_[i]));
  pending_ = std::move(rest);
}

}  // namespace shoal
