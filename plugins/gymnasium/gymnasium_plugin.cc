#include "gymnasium_plugin.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "construction.h"
#include "interpreter.h"
#include "python_env.h"
#include "python_vector_env.h"

namespace py = pybind11;
using shoal::python::PythonEnv;
using shoal::python::PythonVectorEnv;

struct shoal_gymnasium_env {
  PythonEnv env;
};

struct shoal_gymnasium_vector {
  PythonVectorEnv env;
};

namespace {

// As Python prints it, without the newline.
std::string with_traceback(const py::error_already_set& e) {
  try {
    const auto lines =
        py::module_::import("traceback").attr("format_exception")(e.type(), e.value(), e.trace());
    std::string text(py::str(py::str("").attr("join")(lines)));
    while (text.ends_with('\n')) text.pop_back();
    return text;
  } catch (const std::exception&) {
    return e.what();
  }
}

// Keeps the end of the text: the end of a traceback is the most informative part.
void report(const shoal_gymnasium_error& error, std::string_view text) {
  if (error.size == 0) return;
  constexpr std::string_view kCut = "[...] ";
  const auto room = error.size - 1;
  if (text.size() <= room) {
    std::memcpy(error.text, text.data(), text.size());
    error.text[text.size()] = 0;
    return;
  }
  const auto shown = kCut.size() + std::min(text.size(), room - kCut.size());
  std::memcpy(error.text, kCut.data(), kCut.size());
  std::memcpy(error.text + kCut.size(), text.data() + text.size() - (shown - kCut.size()),
              shown - kCut.size());
  error.text[shown] = 0;
}

// Runs `act` with the GIL held; reports an exception's text in `error` and returns `failed`.
template <class Act, class Result = std::invoke_result_t<Act>>
Result guarded(const shoal_gymnasium_error& error, Result failed, Act act) {
  const py::gil_scoped_acquire lock;
  try {
    return act();
  } catch (const py::error_already_set& e) {
    report(error, with_traceback(e));
  } catch (const std::exception& e) {
    report(error, e.what());
  }
  return failed;
}

int start(const char* python, shoal_gymnasium_error error) {
  try {
    shoal::python::start_interpreter(python);
    return 1;
  } catch (const std::exception& e) {  // no interpreter, so no GIL
    report(error, e.what());
    return 0;
  }
}

int ids(char* text, size_t size, shoal_gymnasium_error error) {
  return guarded(error, 0, [&] {
    std::string all;
    for (const auto& id : shoal::python::registered_ids())
      if (all.size() + id.size() + 2 <= size) all += id + '\n';
    std::memcpy(text, all.c_str(), all.size() + 1);
    return 1;
  });
}

shoal_gymnasium_env* make(const shoal_gymnasium_task* task, shoal_gymnasium_error error) {
  return guarded(error, static_cast<shoal_gymnasium_env*>(nullptr),
                 [&] { return new shoal_gymnasium_env{PythonEnv(*task)}; });
}

void destroy(shoal_gymnasium_env* env) {
  const py::gil_scoped_acquire lock;
  delete env;
}

const char* description(shoal_gymnasium_env* env) { return env->env.description().c_str(); }

int has_mask(shoal_gymnasium_env* env, shoal_gymnasium_error error) {
  return guarded(error, -1, [&] { return env->env.has_mask() ? 1 : 0; });
}

int reset(shoal_gymnasium_env* env, const uint64_t* seed, shoal_gymnasium_out out,
          shoal_gymnasium_error error) {
  return guarded(error, 0, [&] {
    env->env.reset(seed == nullptr ? std::nullopt : std::optional(*seed), out);
    return 1;
  });
}

int step(shoal_gymnasium_env* env, const uint8_t* const* action, shoal_gymnasium_out out,
         shoal_gymnasium_step* result, shoal_gymnasium_error error) {
  return guarded(error, 0, [&] {
    *result = env->env.step(action, out);
    return 1;
  });
}

const uint8_t* save(shoal_gymnasium_env* env, size_t* size) {
  return guarded({}, static_cast<const uint8_t*>(nullptr), [&] {
    const auto& bytes = env->env.save();
    *size = bytes.size();
    return reinterpret_cast<const uint8_t*>(bytes.data());
  });
}

int load(shoal_gymnasium_env* env, const uint8_t* bytes, size_t size, shoal_gymnasium_error error) {
  return guarded(error, 0, [&] {
    env->env.load(std::string(reinterpret_cast<const char*>(bytes), size));
    return 1;
  });
}

const uint8_t* picture(shoal_gymnasium_env* env, int* height, int* width,
                       shoal_gymnasium_error error) {
  return guarded(error, static_cast<const uint8_t*>(nullptr), [&] {
    const auto picture = env->env.picture();
    *height = picture.height;
    *width = picture.width;
    return picture.rgb;
  });
}

int is_vector(const shoal_gymnasium_task* task, shoal_gymnasium_error error) {
  return guarded(error, -1, [&] { return shoal::python::makes_vector(*task) ? 1 : 0; });
}

shoal_gymnasium_vector* make_vector(const shoal_gymnasium_task* task, size_t envs,
                                    shoal_gymnasium_error error) {
  return guarded(error, static_cast<shoal_gymnasium_vector*>(nullptr),
                 [&] { return new shoal_gymnasium_vector{PythonVectorEnv(*task, envs)}; });
}

void destroy_vector(shoal_gymnasium_vector* vector) {
  const py::gil_scoped_acquire lock;
  delete vector;
}

const char* vector_description(shoal_gymnasium_vector* vector) {
  return vector->env.description().c_str();
}

int vector_has_mask(shoal_gymnasium_vector* vector, shoal_gymnasium_error error) {
  return guarded(error, -1, [&] { return vector->env.has_mask() ? 1 : 0; });
}

int vector_reset(shoal_gymnasium_vector* vector, const uint64_t* seeds,
                 shoal_gymnasium_vector_out out, shoal_gymnasium_error error) {
  return guarded(error, 0, [&] {
    vector->env.reset(seeds, out);
    return 1;
  });
}

int vector_step(shoal_gymnasium_vector* vector, const uint8_t* const* action,
                shoal_gymnasium_vector_out out, shoal_gymnasium_error error) {
  return guarded(error, 0, [&] {
    vector->env.step(action, out);
    return 1;
  });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const shoal_gymnasium_api*
shoal_gymnasium_get_api(void) {
  static constexpr shoal_gymnasium_api kApi{SHOAL_GYMNASIUM_VERSION,
                                            start,
                                            ids,
                                            make,
                                            destroy,
                                            description,
                                            has_mask,
                                            reset,
                                            step,
                                            save,
                                            load,
                                            picture,
                                            is_vector,
                                            make_vector,
                                            destroy_vector,
                                            vector_description,
                                            vector_has_mask,
                                            vector_reset,
                                            vector_step};
  return &kApi;
}
