#include "shoal/envs/gymnasium.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <sstream>
#include <utility>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/core/text.h"
#include "shoal/ipc/worker_group.h"
#include "src/envs/child.h"
#include "src/envs/gymnasium/gymnasium_batch.h"
#include "src/envs/gymnasium/gymnasium_env.h"
#include "src/envs/gymnasium/gymnasium_library.h"

namespace shoal {
namespace {

std::string find_python(const GymnasiumOptions& options) {
  if (!options.python.empty()) return options.python;
  if (const char* chosen = std::getenv("SHOAL_PYTHON")) return chosen;
  if (const char* active = std::getenv("VIRTUAL_ENV")) return std::string(active) + "/bin/python";
  return SHOAL_PYTHON_PATH;
}

// The result of a child process that queries Python.
struct Report {
  char description[60'000];
  char failure[4096];  // a traceback, and the caller's context
  bool mask, vector;
};

void put(char* to, std::size_t size, const std::string& text) {
  std::copy_n(text.c_str(), std::min(size, text.size() + 1), to);
  to[size - 1] = 0;
}

void describe(Report& report, const GymnasiumTask& task, const std::string& description, int mask,
              const GymnasiumFailure& failure) {
  require(description.size() < sizeof(report.description),
          "{}: the description of its spaces is too long; use fewer parts", task.name());
  require(mask >= 0, "{}: {}", task.name(), failure.text());
  report.mask = mask == 1;
  put(report.description, sizeof(report.description), description);
}

void describe(Report& report, const GymnasiumTask& task) {
  GymnasiumFailure failure;
  const auto& library = gymnasium_library();
  report.vector = is_gymnasium_vector(task);
  if (report.vector) {
    const auto env = open_gymnasium_vector(task, 0);
    const int mask = library.vector_has_mask(env.get(), failure.out());
    describe(report, task, library.vector_description(env.get()), mask, failure);
  } else {
    const auto env = open_gymnasium(task);
    const int mask = library.has_mask(env.get(), failure.out());
    describe(report, task, library.description(env.get()), mask, failure);
  }
}

void list_ids(Report& report, const std::string& python) {
  GymnasiumFailure failure;
  const auto& library = gymnasium_library();
  require(library.start(python.c_str(), failure.out()) != 0 &&
              library.ids(report.description, sizeof(report.description), failure.out()) != 0,
          "{}", failure.text());
}

// Whether this program is Python.
bool python_runs_here() {
  static const auto running = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  return running != nullptr && running() != 0;
}

// Runs `fill` in a temporary process, so that no interpreter stays in this one, nor anything that
// an environment leaves behind; in Python also here, where nothing may be forked.
template <class Fill>
std::unique_ptr<Report> ask_python(const Fill& fill, const WorkerGroupOptions& limits = {}) {
  Arena::Plan plan;
  const auto at = plan.add_bytes(sizeof(Report));
  const Arena arena(plan);
  auto& report = *new (arena.data(at)) Report{};
  const auto ask = [&] {
    try {
      fill(report);
    } catch (const Error& e) {
      put(report.failure, sizeof(report.failure), e.what());
    }
  };
  if (python_runs_here() && !obstacle_to_fork().empty())
    ask();
  else
    run_in_child(
        [&](WorkerStatus status) {
          status.enter(WorkerStatus::kConstructing, 0, 0);
          ask();
        },
        limits);
  return std::make_unique<Report>(report);
}

// The words of one line of a description.
class Words {
 public:
  explicit Words(const std::string& line) : text_(line) {}
  std::string word() {
    std::string next;
    text_ >> next;
    return next;
  }
  std::int64_t integer() { return std::stoll(word()); }
  // Accepts "inf", unlike operator>>, and 1e-310, unlike std::stod().
  double number() { return std::strtod(word().c_str(), nullptr); }
  std::vector<std::int64_t> integers(std::int64_t count) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    for (auto& one : all) one = integer();
    return all;
  }
  std::string rest() {
    std::string all;
    std::getline(text_ >> std::ws, all);
    return all;
  }

 private:
  std::istringstream text_;
};

DType dtype_named(const std::string& name) {
  for (const auto dtype : {DType::kUInt8, DType::kBool, DType::kInt32, DType::kInt64,
                           DType::kFloat32, DType::kFloat64})
    if (name == name_of(dtype)) return dtype;
  throw Error("the Gymnasium plugin reports the unknown dtype '{}'", name);
}

ArraySpec read_array(Words& words) {
  ArraySpec array{.dtype = dtype_named(words.word())};
  array.low = words.number();
  array.high = words.number();
  array.shape = words.integers(words.integer());
  return array;
}

ActionSpec read_action(Words& words) {
  using Kind = ActionSpec::Kind;
  const auto kind = words.word();
  const auto count = words.integer();
  if (kind == "discrete") return ActionSpec::discrete(count);
  if (kind == "multi-discrete")
    return {.kind = Kind::kMultiDiscrete, .choices = words.integers(count)};
  if (kind == "multi-binary") return {.kind = Kind::kMultiBinary, .dims = count};
  const double low = words.number();
  return ActionSpec::box(count, low, words.number());
}

template <class T>
std::string require_new_name(std::string name, const Named<T>& parts, const std::string& id) {
  require(!parts.contains(name),
          "{}: found two parts '{}' of a space, expected one; rename a key that contains '/'", id,
          name);
  return name;
}

EnvSpec read_spec(const std::string& id, const std::string& description, bool& renders,
                  BatchTraits& batch) {
  EnvSpec spec;
  spec.id = id;
  std::istringstream lines(description);
  for (std::string line; std::getline(lines, line);) {
    Words words(line);
    const auto what = words.word();
    if (what == "observation") {
      const auto array = read_array(words);
      spec.observation.add(require_new_name(words.rest(), spec.observation, id), array);
    } else if (what == "action") {
      const auto action = read_action(words);
      spec.action.add(require_new_name(words.rest(), spec.action, id), action);
    } else if (what == "notice") {
      spec.notices.push_back(fmt::format("{}: {}", id, words.rest()));
    } else if (what == "fps") {
      spec.fps = words.number();
    } else if (what == "render") {
      renders = words.integer() == 1;
    } else if (what == "batch") {
      batch.multiple = words.integer();
    } else if (what == "waits") {
      batch.waits = words.integer() == 1;
    }
  }
  return spec;
}

std::string lines(const std::vector<std::string>& wrappers) {
  std::string all;
  for (const auto& wrapper : wrappers) {
    require(wrapper.find('\n') == std::string::npos,
            "gymnasium.wrappers: found '{}', expected one line", one_line(wrapper));
    all += wrapper + '\n';
  }
  return all;
}

// In training a name that never occurs is a mistake. By the time of an evaluation it has occurred.
GymnasiumTask in_stream(GymnasiumTask task, Stream stream) {
  task.rare_infos = stream == Stream::kEval;
  return task;
}

}  // namespace

std::vector<std::string> gymnasium_ids(const GymnasiumOptions& options) {
  std::vector<std::string> ids;
  try {
    const auto report = ask_python([&](Report& to) { list_ids(to, find_python(options)); });
    std::istringstream lines(report->description);
    for (std::string id; std::getline(lines, id);) ids.push_back(id);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception&) {  // no plugin or no Python
  }
  return ids;
}

EnvFactory make_gymnasium(const std::string& id, const GymnasiumOptions& options) {
  const bool games = id.starts_with(kPettingZoo) && id.size() > kPettingZoo.size();
  require(games || (id.starts_with(kGymnasium) && id.size() > kGymnasium.size()),
          "found the environment '{}', expected gymnasium:ID, such as gymnasium:CartPole-v1, or "
          "pettingzoo:MODULE",
          id);
  GymnasiumTask task{.id = games ? id : id.substr(kGymnasium.size()),
                     .kwargs = options.kwargs,
                     .python = find_python(options),
                     .wrappers = lines(options.wrappers),
                     .infos = {},
                     .vector = options.vector || games};
  for (const auto& info : options.infos) task.infos += info.name + '\n';
  const auto report =
      ask_python([&](Report& to) { describe(to, task); }, {.reset_limit = options.reset_limit});
  require(report->failure[0] == 0, "{}", report->failure);
  const std::string description = report->description;
  BatchTraits batch;
  auto spec = read_spec(id, description, task.renders, batch);
  spec.action_mask = report->mask;
  spec.info = options.infos;
  if (report->vector) {
    task.vector = true;
    return make_batched([task, spec, batch, description](const BatchContext& context) {
      return std::make_unique<GymnasiumBatch>(in_stream(task, context.stream), spec, batch,
                                              description, context.envs());
    });
  }
  return [task, spec, description](const EnvContext& context) {
    return std::make_unique<GymnasiumEnv>(in_stream(task, context.stream), spec, description);
  };
}

}  // namespace shoal
