#include "shoal/distributed/job_place.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>

#include "shoal/core/error.h"

namespace shoal {
namespace {

constexpr int kFirstPort = 20000,
              kPorts = 10000;  // below the ephemeral ports

// Removes a number from the front of the text.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

class Variables {
 public:
  explicit Variables(const ReadVariable& read) : read_(read) {}

  bool has(const char* name) const { return read_(name) != nullptr; }
  std::string text(const char* name) const {
    const char* const value = read_(name);
    return value == nullptr ? "" : value;
  }
  int number(const char* name, int otherwise) const { return has(name) ? number(name) : otherwise; }
  int number(const char* name) const {
    const auto all = text(name);
    std::string_view rest = all;
    const auto value = take_number(rest);
    require(value && rest.empty() && *value >= 0,
            "{}: found '{}', expected a number from the launcher", name, all);
    return *value;
  }

 private:
  const ReadVariable& read_;
};

// "node[07-09,12],other" -> "node07"
std::string first_host(const std::string& list) {
  const auto end = list.find_first_of("[,");
  auto host = list.substr(0, end);
  if (end != std::string::npos && list[end] == '[')
    host += list.substr(end + 1, list.find_first_of("-,]", end) - end - 1);
  return host;
}

// The tasks of host `index` in a list such as "2(x3),1": 2, 2, 2 and 1.
int tasks_of_host(const std::string& list, int index) {
  std::string_view rest = list;
  while (!rest.empty()) {
    const auto tasks = take_number(rest);
    int hosts = 1;
    if (rest.starts_with("(x")) {
      rest.remove_prefix(2);
      hosts = take_number(rest).value_or(0);
      if (!rest.empty()) rest.remove_prefix(1);
    }
    if (!tasks || hosts < 1) break;
    if (index < hosts) return *tasks;
    index -= hosts;
    if (!rest.empty()) rest.remove_prefix(1);
  }
  throw Error("SLURM_STEP_TASKS_PER_NODE: found '{}', expected numbers such as 2(x3),1", list);
}

// Derived from the job, so that jobs on one machine have different ports.
int port_of(const std::string& job) {
  return kFirstPort + static_cast<int>(std::hash<std::string>()(job) % kPorts);
}

JobPlace of_torchrun(const Variables& v) {
  return {.launcher = "torchrun",
          .place = v.number("RANK"),
          .count = v.number("WORLD_SIZE"),
          .local_place = v.number("LOCAL_RANK"),
          .local_count = v.number("LOCAL_WORLD_SIZE"),
          .address = "",  // only MASTER_ADDR has it
          .store_exists = v.text("TORCHELASTIC_USE_AGENT_STORE") == "True",
          .job = v.text("TORCHELASTIC_RUN_ID")};
}

JobPlace of_mpirun(const Variables& v) {
  JobPlace j;
  j.launcher = "mpirun";
  j.place = v.number("OMPI_COMM_WORLD_RANK");
  j.count = v.number("OMPI_COMM_WORLD_SIZE");
  j.local_place = v.number("OMPI_COMM_WORLD_LOCAL_RANK");
  j.local_count = v.number("OMPI_COMM_WORLD_LOCAL_SIZE");
  j.job = v.text(v.has("OMPI_MCA_ess_base_jobid") ? "OMPI_MCA_ess_base_jobid" : "PMIX_NAMESPACE");
  j.port = port_of(j.job);
  j.address.clear();
  return j;
}

JobPlace of_srun(const Variables& v) {
  JobPlace j{.launcher = "srun",
             .place = v.number("SLURM_PROCID"),
             .count = v.number("SLURM_STEP_NUM_TASKS"),
             .local_place = v.number("SLURM_LOCALID"),
             .local_count = 1,
             .address = first_host(v.text("SLURM_STEP_NODELIST")),
             .job = v.text("SLURM_JOB_ID") + "." + v.text("SLURM_STEP_ID")};
  j.port = port_of(j.job);
  j.local_count = tasks_of_host(v.text("SLURM_STEP_TASKS_PER_NODE"), v.number("SLURM_NODEID", 0));
  return j;
}

}  // namespace

JobPlace job_place(const ReadVariable& variable) {
  const Variables v(variable);
  JobPlace j;
  if (v.has("RANK") && v.has("WORLD_SIZE"))
    j = of_torchrun(v);
  else if (v.has("OMPI_COMM_WORLD_SIZE"))
    j = of_mpirun(v);
  else if (v.has("SLURM_PROCID") && v.has("SLURM_STEP_NUM_TASKS"))
    j = of_srun(v);
  if (v.has("MASTER_ADDR")) j.address = v.text("MASTER_ADDR");
  j.port = v.number("MASTER_PORT", j.port);
  require(j.port >= 1 && j.port <= 65535, "MASTER_PORT: found {}, expected 1 to 65535", j.port);
  if (j.address.empty() && j.local_count == j.count) j.address = "127.0.0.1";
  require(j.place < j.count && j.local_place < j.local_count && j.local_count <= j.count,
          "{}: found process {} of {}, and {} of {} on this host, which contradict each other",
          j.launcher, j.place, j.count, j.local_place, j.local_count);
  return j;
}

JobPlace job_place() {
  return job_place([](const char* name) { return std::getenv(name); });
}

}  // namespace shoal
