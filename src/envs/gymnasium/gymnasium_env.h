#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shoal/envs/env.h"
#include "src/envs/gymnasium/gymnasium_library.h"

namespace shoal {

// A Gymnasium environment, constructed in Python on first use: reading its spec starts no
// interpreter.
class GymnasiumEnv : public Env {
 public:
  // description: the text from which the spec was read; the environment's own must be equal.
  GymnasiumEnv(GymnasiumTask task, EnvSpec spec, std::string description)
      : task_(std::move(task)), spec_(std::move(spec)), description_(std::move(description)) {}

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override;
  StepResult step(ArraysIn action, StepOut out) override;
  bool save(std::vector<std::byte>& bytes) const override;
  bool load(std::span<const std::byte> bytes) override;
  bool render(Image& image) override;

 private:
  void open();
  shoal_gymnasium_out pointers(const StepOut& out);
  void check(int result) const;

  GymnasiumTask task_;
  EnvSpec spec_;
  std::string description_;
  GymnasiumHandle env_;
  GymnasiumFailure failure_;
  std::vector<std::uint8_t*> observation_;
  std::vector<float*> info_;
  std::vector<const std::uint8_t*> action_;
};

}  // namespace shoal
