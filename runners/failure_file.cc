#include "shoal/runners/failure_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/data/saved.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/files.h"
#include "src/core/print.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

constexpr std::size_t kKept = 5;

std::int64_t bits(std::uint64_t number) { return static_cast<std::int64_t>(number); }

template <class Bytes>
at::Tensor to_tensor(const Bytes& bytes) {
  const auto tensor = at::empty({std::ssize(bytes)}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

template <class Bytes>
Bytes to_bytes_of(const at::Tensor& tensor) {
  require(tensor.scalar_type() == at::kByte && tensor.dim() == 1, "a list of bytes is damaged");
  const auto* first = static_cast<const typename Bytes::value_type*>(tensor.const_data_ptr());
  return Bytes(first, first + tensor.numel());
}

// Sorted from oldest to newest.
std::vector<fs::path> failures_in(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;  // ranks may remove files at the same time
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".rewind")
      found.emplace_back(entry.last_write_time(error), entry.path());
  std::ranges::sort(found);
  std::vector<fs::path> files;
  for (auto& [time, file] : found) files.push_back(std::move(file));
  return files;
}

Checkpoint to_checkpoint(const EnvFailure& f) {
  Checkpoint checkpoint{.counters = {{"env", f.env},
                                     {"stream", static_cast<std::int64_t>(f.stream)},
                                     {"env_seed", bits(f.env_seed)},
                                     {"step", f.step},
                                     {"phase", static_cast<std::int64_t>(f.phase)},
                                     {"begin", f.begin},
                                     {"has_seed", f.seed.has_value()},
                                     {"seed", bits(f.seed.value_or(0))},
                                     {"random_steps", f.random_steps},
                                     {"in_step", f.in_step}},
                        .tensors = {{"error", to_tensor(f.error)},
                                    {"state", to_tensor(f.state)},
                                    {"statistics", to_tensor(f.statistics)}}};
  add_with_prefix("action/", f.actions, checkpoint.tensors);
  add_with_prefix("observation/", f.observation, checkpoint.tensors);
  return checkpoint;
}

EnvFailure from_checkpoint(const Checkpoint& checkpoint) {
  const auto counter = [&](const char* name) {
    require(checkpoint.counters.contains(name), "it has no counter '{}'", name);
    return checkpoint.counters.at(name);
  };
  const auto bytes = [&](const char* name) {
    return to_bytes_of<std::vector<std::byte>>(saved(checkpoint.tensors, name));
  };
  EnvFailure f{.error = to_bytes_of<std::string>(saved(checkpoint.tensors, "error")),
               .env = counter("env"),
               .stream = static_cast<Stream>(counter("stream")),
               .env_seed = static_cast<std::uint64_t>(counter("env_seed")),
               .step = counter("step"),
               .phase = static_cast<WorkerStatus::Phase>(counter("phase")),
               .begin = counter("begin"),
               .state = bytes("state"),
               .random_steps = counter("random_steps"),
               .statistics = bytes("statistics"),
               .actions = with_prefix("action/", checkpoint.tensors),
               .in_step = counter("in_step") != 0,
               .observation = with_prefix("observation/", checkpoint.tensors)};
  require(f.phase >= WorkerStatus::kConstructing && f.phase <= WorkerStatus::kSaving,
          "its counter 'phase' is {}, expected {} to {}", counter("phase"),
          std::int64_t{WorkerStatus::kConstructing}, std::int64_t{WorkerStatus::kSaving});
  if (counter("has_seed") != 0) f.seed = static_cast<std::uint64_t>(counter("seed"));
  for (const auto& [name, action] : f.actions)
    require(action.dim() > 0 && action.size(0) == f.steps(),
            "its actions '{}' have another number of steps than the others", name);
  return f;
}

}  // namespace

FailureHandler keep_failures(const fs::path& run, const Config& config) {
  return [run, config](const EnvFailure& failure) {
    const auto file = write_failure(run, failure);
    if (!fs::exists(run / kConfigFile)) write_file(run / kConfigFile, write_config(config));
    print_error("recorded in {}: `shoal rewind {}` repeats the failure of environment {}\n",
                file.string(), shell_word(run.string()), failure.env);
  };
}

fs::path write_failure(const fs::path& folder, const EnvFailure& failure) {
  auto file = folder / fmt::format("failure-{:012}-{}.rewind", failure.step, failure.env);
  write_checkpoint(file, to_checkpoint(failure));
  const auto files = failures_in(folder);
  std::error_code ignored;
  for (std::size_t i = 0; i + kKept < files.size(); ++i) fs::remove(files[i], ignored);
  return file;
}

EnvFailure read_failure(const fs::path& file) {
  const auto checkpoint = read_checkpoint(file);
  try {
    return from_checkpoint(checkpoint);
  } catch (const Error& e) {
    throw Error("{} is not a record of a failure: {}", file.string(), e.what());
  }
}

fs::path latest_failure(const fs::path& run) {
  const auto files = failures_in(run);
  require(!files.empty(),
          "there is no failure-*.rewind in {}: no environment of this run has failed; actions that "
          "are not finite are a failure of the agent",
          run.string());
  return files.back();
}

void forget_failures(const fs::path& run) {
  for (const auto& file : failures_in(run)) fs::remove(file);
}

}  // namespace shoal
