#include "cli/cpu_use.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace shoal::cli {
namespace {

// The numbers in a line of /proc from field `first` on. Empty if the file is gone.
std::vector<long long> numbers(const std::string& line, int first) {
  std::istringstream words(line);
  std::vector<long long> found;
  std::string word;
  for (int i = 0; words >> word; ++i)
    if (i >= first) found.push_back(std::atoll(word.c_str()));
  return found;
}

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

long long machine_ticks() {
  // cpu user nice system idle iowait irq softirq steal ...
  const auto n = numbers(first_line("/proc/stat"), 1);
  long long busy = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(n.size(), 8); ++i)
    if (i != 3 && i != 4) busy += n[i];
  return busy;
}

// This process and its children.
long long our_ticks() {
  long long total = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string line = first_line(entry.path() / "stat");
    const auto behind_name = line.rfind(')');
    if (behind_name == std::string::npos) continue;
    const auto n =
        numbers(line.substr(behind_name + 1), 0);  // state, parent, ...; fields 11 to 14 are times
    const bool ours = std::stoll(name) == getpid() || (n.size() > 14 && n[1] == getpid());
    for (std::size_t i = 11; ours && i < 15; ++i) total += n[i];
  }
  return total;
}

}  // namespace

CpuUse::CpuUse()
    : machine_(machine_ticks()), ours_(our_ticks()), start_(std::chrono::steady_clock::now()) {}

double CpuUse::others() const {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const auto ticks = (machine_ticks() - machine_) - (our_ticks() - ours_);
  return std::max(0.0,
                  static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK)) / seconds);
}

}  // namespace shoal::cli
