#pragma once

#include <array>
#include <memory>
#include <string>

#include "gymnasium_plugin.h"

namespace shoal {

// Loads the plugin into this process, once. Throws Error if it is not there or of another version.
const shoal_gymnasium_api& gymnasium_library();

// The text that a failing call leaves: calls take `out()`.
class GymnasiumFailure {
 public:
  shoal_gymnasium_error out() { return {text_.data(), text_.size()}; }
  const char* text() const { return text_.data(); }

 private:
  std::array<char, 3000> text_{};  // what fits into a worker's last message
};

struct CloseGymnasium {
  void operator()(shoal_gymnasium_env* env) const { gymnasium_library().destroy(env); }
};
using GymnasiumHandle = std::unique_ptr<shoal_gymnasium_env, CloseGymnasium>;

// Which environment, and by whom it is run.
struct GymnasiumTask {
  std::string id, kwargs, python;
  bool renders = false;
};

// Starts this process's interpreter if need be, and makes the environment. Throws Error.
GymnasiumHandle open_gymnasium(const GymnasiumTask& task);

}  // namespace shoal
