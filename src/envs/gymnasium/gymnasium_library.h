#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "gymnasium_plugin.h"
#include "src/envs/gymnasium/python_id.h"

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

struct CloseGymnasiumVector {
  void operator()(shoal_gymnasium_vector* env) const { gymnasium_library().destroy_vector(env); }
};
using GymnasiumVectorHandle = std::unique_ptr<shoal_gymnasium_vector, CloseGymnasiumVector>;

// Every Python library accepts seeds of these bits.
inline constexpr std::uint64_t kGymnasiumSeedBits = 0x7FFFFFFF;

// The environment, and the interpreter that runs it.
struct GymnasiumTask {
  std::string id, kwargs, python;
  std::string wrappers, infos;  // one per line
  bool renders = false, vector = false;
  bool rare_infos = false;  // an episode may have none of them

  // For messages: what the user wrote.
  std::string name() const {
    return id.starts_with(kPettingZoo) ? id : std::string(kGymnasium) + id;
  }
};

// Starts this process's interpreter if necessary and constructs the environment. Throws Error.
GymnasiumHandle open_gymnasium(const GymnasiumTask& task);
// The same for a vector environment of so many environments; 0: as few as there can be.
GymnasiumVectorHandle open_gymnasium_vector(const GymnasiumTask& task, std::int64_t envs);
// Starts this process's interpreter if necessary; whether the task makes a vector environment.
bool is_gymnasium_vector(const GymnasiumTask& task);
// Throws Error if the description of an environment is not the one that was read first.
void require_same_spaces(const GymnasiumTask& task, const std::string& found,
                         const std::string& expected);

}  // namespace shoal
