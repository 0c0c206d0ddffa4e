#include "src/ipc/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/ipc/child_process.h"

namespace shoal {
namespace {

constexpr const char* kVariable = "SHOAL_RUN";  // the concatenated marks of a process
constexpr int kMostRounds = 500;
constexpr int kLongestDeath = 1000;  // milliseconds from SIGKILL to the end

struct Process {
  unsigned long long started = 0;  // in clock ticks since boot
  bool runs = false;
};

// A process that has workers. A process that descends from workers of two runs has the marks of
// both.
struct Run {
  pid_t main = 0;
  unsigned long long started = 0;
  std::string mark;  // "shoal-PID-START."; for a worker "shoal-PID-START.PID-START."
};

// A child that forks workers calls start_reaper() itself.
Run& own_run() {
  static Run one;
  return one;
}

// "" if the process is gone or belongs to another user.
std::string read_all(const std::string& file) {
  std::string text;
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char part[8192];
  for (ssize_t n = 0; (n = ::read(fd, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  ::close(fd);
  return text;
}

// Parses /proc/PID/stat: after the name come the state and, as the 20th field, the start time.
Process process_of(const std::string& pid) {
  Process out;
  const auto text = read_all("/proc/" + pid + "/stat");
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return out;
  char state = 'Z';
  if (std::sscanf(
          text.c_str() + name_end + 1,
          " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
          &state, &out.started) == 2)
    out.runs = state != 'Z' && state != 'X';
  return out;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  if (!folder) return all;
  while (const auto* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) all.push_back(pid);
  }
  return all;
}

enum class Kill : std::uint8_t { kAll, kOfEndedWorkers };

bool is_of_ended_worker(const char* rest_of_mark) {
  int pid = 0;
  unsigned long long started = 0;
  if (std::sscanf(rest_of_mark, "%d-%llu.", &pid, &started) != 2) return false;
  const auto worker = process_of(std::to_string(pid));
  return !worker.runs || worker.started != started;
}

// Whether a mark in this text selects its process for killing.
bool is_to_die(const std::string& text, const Run& run, Kill which) {
  for (auto at = text.find(run.mark); at != std::string::npos; at = text.find(run.mark, at + 1))
    if (which == Kill::kAll || is_of_ended_worker(text.c_str() + at + run.mark.size())) return true;
  return false;
}

// Returns whether it found any process to kill.
bool kill_marked(const Run& run, Kill which) {
  bool found = false;
  for (const pid_t pid : all_processes()) {
    const auto process = process_of(std::to_string(pid));
    if (!process.runs || process.started < run.started || pid == getpid()) continue;
    // The handle keeps the PID from being reused between the check and the signal.
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (handle < 0) continue;
    const auto folder = fmt::format("/proc/{}/", pid);
    if (is_to_die(read_all(folder + "environ"), run, which) ||
        is_to_die(read_all(folder + "maps"), run, which)) {
      syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
      pollfd ended{handle, POLLIN, 0};  // the process loses its mark before it is gone
      ::poll(&ended, 1, kLongestDeath);
      found = true;
    }
    ::close(handle);
  }
  return found;
}

void kill_all_marked(const Run& run, Kill which) {
  for (int round = 0; round < kMostRounds && kill_marked(run, which); ++round) ::usleep(1000);
}

// Gives the mark to this process and to all that it starts later.
void set_mark(const std::string& mark) {
  const char* before = std::getenv(kVariable);
  ::setenv(kVariable, (before ? before + mark : mark).c_str(), 1);
  const int file = ::memfd_create(mark.c_str(), MFD_CLOEXEC);
  if (file < 0) return;
  static_cast<void>(
      ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, file, 0));  // stays mapped, never read
  ::close(file);
}

// Otherwise the reaper would keep the shared memory alive.
void unmap_shared() {
  const auto maps = read_all("/proc/self/maps");
  for (std::size_t at = 0; at < maps.size();) {
    const auto end = std::min(maps.find('\n', at), maps.size());
    unsigned long first = 0, last = 0;
    char rights[5] = {};
    if (std::sscanf(maps.c_str() + at, "%lx-%lx %4s", &first, &last, rights) == 3 &&
        rights[3] == 's')
      ::munmap(reinterpret_cast<void*>(first), last - first);
    at = end + 1;
  }
}

// Waits for the end of the main process and kills the remaining descendants of its workers.
[[noreturn]] void run_reaper(const Run& run, int main) {
  ::setsid();  // detaches from the terminal's signals
  ::prctl(PR_SET_NAME, "shoal-reaper");
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(ignored, SIG_IGN);
  unmap_shared();
  ::dup2(main, 3);
  if (::syscall(SYS_close_range, 4U, ~0U, 0U) != 0)  // kernels before 5.9
    for (int fd = 4; fd < 1024; ++fd) ::close(fd);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) ::dup2(nothing, fd);
  ::close(nothing);
  pollfd ended{3, POLLIN, 0};
  while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  kill_all_marked(run, Kill::kAll);
  ::_exit(0);
}

}  // namespace

// Forks twice, so that the reaper is not a child of this process.
void start_reaper() {
  auto& run = own_run();
  if (run.main == getpid()) return;
  run.main = getpid();
  run.started = process_of("self").started;
  run.mark = fmt::format("shoal-{}-{}.", run.main, run.started);
  const int main = static_cast<int>(syscall(SYS_pidfd_open, run.main, 0));
  if (main < 0) return;  // kernels before 5.3
  {
    const SignalsBlocked blocked;
    const pid_t between = fork();
    if (between == 0 && fork() != 0) ::_exit(0);
    if (between != 0) {
      while (between > 0 && waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
      }
      ::close(main);
      return;
    }
  }
  run_reaper(run, main);
}

void mark_worker() {
  set_mark(fmt::format("{}{}-{}.", own_run().mark, getpid(), process_of("self").started));
}

void kill_orphans() {
  const auto& run = own_run();
  if (run.main == getpid()) kill_all_marked(run, Kill::kOfEndedWorkers);
}

}  // namespace shoal
