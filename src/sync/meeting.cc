#include "src/sync/meeting.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr const char* kKey = "shoal/first";  // of the store
constexpr auto kPause = 50ms;    // before one looks again for somebody who was not there
constexpr auto kVisitTime = 5s;  // for somebody who has connected to say who it is

// What a process tells the first one.
struct Visit {
  std::uint64_t job = 0;  // which one: a machine may have several
  std::int32_t place = 0, count = 0;
  std::array<char, 8> port{};  // where it listens
};

// What it is told when all are there.
struct Answer {
  std::uint64_t token = 0;           // 0: this is another job
  std::array<char, 64> next_host{};  // empty: the first one itself
  std::array<char, 8> next_port{};
};

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

template <std::size_t kSize>
void write(const std::string& text, std::array<char, kSize>& to) {
  require(text.size() < kSize, "'{}' is no address: it is longer than {} letters", text, kSize - 1);
  std::ranges::copy(text, to.begin());
}

// Up to its zero byte, which a peer may have left out.
template <std::size_t kSize>
std::string text_of(const std::array<char, kSize>& from) {
  return {from.begin(), std::ranges::find(from, '\0')};
}

template <class T>
bool send_one(const Socket& connection, const T& message, Deadline deadline) {
  return send_all(connection, std::as_bytes(std::span(&message, 1)), deadline);
}
template <class T>
bool receive_one(const Socket& connection, T& message, Deadline deadline) {
  return receive_all(connection, std::as_writable_bytes(std::span(&message, 1)), deadline);
}

// c10d warns of addresses without a name, and of every wait; its errors are told all the same.
class QuietStore {
 public:
  QuietStore() : before_(std::exchange(FLAGS_caffe2_log_level, kFatal)) {}
  ~QuietStore() { FLAGS_caffe2_log_level = before_; }

 private:
  static constexpr int kFatal = 3;
  int before_;
};

class Meeting {
 public:
  Meeting(const TcpRanksOptions& o, const Socket& listener)
      : options_(o),
        listener_(listener),
        deadline_(Clock::now() + o.timeout),
        job_(std::hash<std::string>()(o.job)) {}

  Met come() {
    const QuietStore quiet;
    open_store();
    return options_.rank == 0 ? receive_all_others() : visit_first();
  }

 private:
  std::string place_to_meet() const {
    return fmt::format("{} port {}", options_.address, options_.port);
  }

  [[noreturn]] void fail(int missing, const std::string& what) const {
    throw RankError(
        fmt::format("process {} of {} {}, within {:.0f} s, at {}", missing, options_.count, what,
                    std::chrono::duration<double>(options_.timeout).count(), place_to_meet()),
        missing);
  }

  void open_store() {
    const bool opens = !options_.store_exists && options_.rank == 0;
    c10d::TCPStoreOptions o;
    o.port = static_cast<std::uint16_t>(options_.port);
    o.isServer = opens;
    o.waitWorkers = false;
    o.timeout = options_.timeout;
    try {
      store_ = c10::make_intrusive<c10d::TCPStore>(options_.address, o);
    } catch (const c10::Error& e) {
      if (opens)
        throw Error(
            "the place to meet at, {}, cannot be opened: {}; if another job has the port, "
            "give another one with MASTER_PORT",
            place_to_meet(), e.what_without_backtrace());
      fail(0, std::string("has opened no place to meet at: ") + e.what_without_backtrace());
    }
  }

  // By whichever of them the others can reach this process; one a line, the port first.
  std::string own_hosts() const {
    return fmt::format("{}\n{}\n{}\n{}", own_port(listener_), address_towards(options_.address),
                       options_.address, host_name());
  }

  Met receive_all_others() {
    store_->set(kKey, bytes_of(own_hosts()));
    const auto count = static_cast<std::size_t>(options_.count);
    std::vector<std::optional<Socket>> visitors(count);
    std::vector<Endpoint> endpoints(count);
    const auto missing = [&] {
      return std::ranges::find_if(visitors.begin() + 1, visitors.end(),
                                  [](const auto& v) { return !v; });
    };
    while (missing() != visitors.end()) {
      auto guest = accept_one(listener_, deadline_);
      if (!guest)
        fail(static_cast<int>(missing() - visitors.begin()), "has not come to meet the others");
      Visit visit;
      if (!receive_one(*guest, visit, std::min(deadline_, Clock::now() + kVisitTime))) continue;
      if (visit.job != job_ || visit.count != options_.count || visit.place < 1 ||
          visit.place >= options_.count) {
        send_one(*guest, Answer{}, Clock::now() + kVisitTime);
        continue;
      }
      // Who comes twice was started again meanwhile.
      const auto place = static_cast<std::size_t>(visit.place);
      endpoints[place] = {peer_address(*guest), text_of(visit.port)};
      visitors[place] = std::move(guest);
    }
    const std::uint64_t token = std::random_device{}() + (std::uint64_t{1} << 32);
    for (std::size_t place = 1; place < count; ++place) {
      Answer answer{.token = token};
      if (place + 1 < count) {
        write(endpoints[place + 1].host, answer.next_host);
        write(endpoints[place + 1].port, answer.next_port);
      }
      send_one(*visitors[place], answer, deadline_);  // who is gone is missed by its neighbours
    }
    return {endpoints[1], token};
  }

  Met visit_first() {
    for (; Clock::now() < deadline_; std::this_thread::sleep_for(kPause))
      if (const auto met = try_to_visit()) return *met;
    fail(0, "was not met");
  }

  // Nothing if the first one is not there (any more): another one may come.
  std::optional<Met> try_to_visit() {
    std::string text;
    try {
      store_->setTimeout(
          std::max(1ms, std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now())));
      text = store_->get_to_str(kKey);
    } catch (const c10::Error& e) {
      fail(0, std::string("was not met: ") + e.what_without_backtrace());
    }
    std::vector<std::string> lines;
    for (std::size_t from = 0; from <= text.size();) {
      const auto end = std::min(text.find('\n', from), text.size());
      lines.push_back(text.substr(from, end - from));
      from = end + 1;
    }
    for (std::size_t i = 1; i < lines.size(); ++i) {
      if (lines[i].empty()) continue;
      const Endpoint first{lines[i], lines[0]};
      std::string why;
      const auto connection =
          connect_to(first, std::min(deadline_, Clock::now() + kVisitTime), &why);
      if (!connection) continue;
      Visit visit{.job = job_, .place = options_.rank, .count = options_.count};
      write(own_port(listener_), visit.port);
      Answer answer;
      if (!send_one(*connection, visit, deadline_) || !receive_one(*connection, answer, deadline_))
        continue;
      require(answer.token != 0,
              "at {} there is another job than this one, '{}', or one of another number of "
              "processes than {}; give another port with MASTER_PORT",
              place_to_meet(), options_.job, options_.count);
      return Met{answer.next_host[0] == 0
                     ? first
                     : Endpoint{text_of(answer.next_host), text_of(answer.next_port)},
                 answer.token};
    }
    return std::nullopt;
  }

  const TcpRanksOptions& options_;
  const Socket& listener_;
  Deadline deadline_;
  std::uint64_t job_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace

Met meet(const TcpRanksOptions& options, const Socket& listener) {
  return Meeting(options, listener).come();
}

}  // namespace shoal
