#include "src/core/descendants.h"

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
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "src/core/child_process.h"

namespace shoal {
namespace {

constexpr const char* kVariable = "SHOAL_RUN";  // marks of this process and of those above it
constexpr int kMostRounds = 500;
constexpr int kLongestDeath = 1000;  // milliseconds from SIGKILL to the end

struct Process {
  pid_t parent = 0;
  unsigned long long started = 0;  // in clock ticks since the machine's start
  bool runs = false;
};

// Belongs to one process; a child that forks workers makes its own.
struct Mark {
  pid_t owner = 0;
  std::string name;
  unsigned long long since = 0;
  pid_t guard = 0;
};

Mark& own_mark() {
  static Mark one;
  return one;
}

// "" if the process is gone, or another user's.
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

// From /proc/PID/stat: behind the name come state, parent and, as the 20th, the start.
Process process_of(const std::string& pid) {
  Process out;
  const auto text = read_all("/proc/" + pid + "/stat");
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return out;
  char state = 'Z';
  if (std::sscanf(text.c_str() + name_end + 1,
                  " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &state, &out.parent, &out.started) == 3)
    out.runs = state != 'Z' && state != 'X';
  return out;
}

std::map<pid_t, Process> all_processes() {
  std::map<pid_t, Process> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  if (!folder) return all;
  while (const auto* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size())
      all[pid] = process_of(entry->d_name);
  }
  return all;
}

bool descends(pid_t pid, pid_t from, const std::map<pid_t, Process>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {  // pids may be used anew meanwhile, in a circle
    if (pid == from) return true;
    const auto found = all.find(pid);
    if (found == all.end()) return false;
    pid = found->second.parent;
  }
  return false;
}

bool bears(pid_t pid, const std::string& mark) {
  const auto folder = fmt::format("/proc/{}/", pid);
  const auto environment = read_all(folder + "environ");
  for (auto at = environment.find(mark); at != std::string::npos;
       at = environment.find(mark, at + 1)) {
    const auto end = at + mark.size();
    if (end == environment.size() || environment[end] == '\0' || environment[end] == ':')
      return true;
  }
  return read_all(folder + "maps").find("/memfd:" + mark + " ") != std::string::npos;
}

// Whether there was anything to kill.
bool kill_marked(const Mark& mark) {
  const auto all = all_processes();
  bool found = false;
  for (const auto& [pid, process] : all) {
    if (!process.runs || process.started < mark.since || pid == getpid() || pid == mark.guard ||
        descends(pid, mark.owner, all))
      continue;
    // Between the look at its mark and the signal the number may become another process's.
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (handle < 0) continue;
    if (bears(pid, mark.name)) {
      syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
      pollfd ended{handle, POLLIN, 0};  // it loses its mark before it is gone
      ::poll(&ended, 1, kLongestDeath);
      found = true;
    }
    ::close(handle);
  }
  return found;
}

// Memory that this process shares with others would stay as long as the guard does.
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

// Waits for the end of the marked process and kills its remaining descendants.
[[noreturn]] void stand_guard(const Mark& mark, int owner) {
  ::setsid();  // no terminal's signal reaches it, and nobody waits for it
  ::prctl(PR_SET_NAME, "shoal-guard");
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(ignored, SIG_IGN);
  unmap_shared();
  ::dup2(owner, 3);
  if (::syscall(SYS_close_range, 4U, ~0U, 0U) != 0)  // a kernel before 5.9
    for (int fd = 4; fd < 1024; ++fd) ::close(fd);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) ::dup2(nothing, fd);
  ::close(nothing);
  pollfd ended{3, POLLIN, 0};
  while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  for (int round = 0; round < kMostRounds && kill_marked(mark); ++round) ::usleep(1000);
  ::_exit(0);
}

// Forks twice, so that the guard is not a child of this process.
void start_guard(Mark& mark, std::atomic<pid_t>& pid) {
  const int owner = static_cast<int>(syscall(SYS_pidfd_open, mark.owner, 0));
  if (owner < 0) return;  // a kernel before 5.3
  {
    const SignalsBlocked blocked;
    const pid_t between = fork();
    if (between == 0) {
      const pid_t guard = fork();
      if (guard != 0) {
        pid = guard;
        ::_exit(0);
      }
    }
    if (between > 0) {
      while (waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
      }
      mark.guard = pid;
    }
    if (between != 0) {
      ::close(owner);
      return;
    }
  }
  stand_guard(mark, owner);
}

}  // namespace

void mark_descendants() {
  auto& mark = own_mark();
  if (mark.owner == getpid()) return;
  const auto own = process_of("self");
  mark = {.owner = getpid(),
          .name = fmt::format("shoal-{}-{}", getpid(), own.started),
          .since = own.started};
  // The mapping stays for as long as the process.
  const int file = ::memfd_create(mark.name.c_str(), MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, sizeof(std::atomic<pid_t>)) != 0) return;
  void* const page =
      ::mmap(nullptr, sizeof(std::atomic<pid_t>), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (page == MAP_FAILED) return;
  const char* above = std::getenv(kVariable);
  ::setenv(kVariable, (above ? std::string(above) + ":" + mark.name : mark.name).c_str(), 1);
  start_guard(mark, *new (page) std::atomic<pid_t>(0));
}

void kill_orphans() {
  const auto& mark = own_mark();
  if (mark.owner != getpid()) return;
  for (int round = 0; round < kMostRounds && kill_marked(mark); ++round) ::usleep(1000);
}

}  // namespace shoal
