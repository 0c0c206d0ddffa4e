#pragma once

#include <array>
#include <memory>
#include <string>

#include "gymnasium_plugin.h"

namespace shoal {

// Loads the plugin on the first call. Throws Error if it is missing or has another version.
const shoal_gymnasium_api& gymnasium_library();

// The message of a failing call; pass `out()` to the call.
class GymnasiumFailure {
 public:
  shoal_gymnasium_error out() { return {text_.data(), text_.size()}; }
  const char* text() const { return text_.data(); }

 private:
  std::array<char, 3000> text_{};  // fits into a worker's last message
};

struct CloseGymnasium {
  void operator()(shoal_gymnasium_env* env) const { gymnasium_library().destroy(env); }
};
using GymnasiumHandle = std::unique_ptr<shoal_gymnasium_env, CloseGymnasium>;

// The environment, and the interpreter that runs it.
struct GymnasiumTask {
  std::string id, kwargs, python;
  std::string wrappers, infos;  // one per line
  bool renders = false;
};

// Starts this process's interpreter if necessary and constructs the environment. Throws Error.
GymnasiumHandle open_gymnasium(const GymnasiumTask& task);

}  // namespace shoal
