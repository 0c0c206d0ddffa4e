#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Forwards every call to the wrapped environment; a base class for wrappers.
class Wrapper : public Env {
 public:
  explicit Wrapper(std::unique_ptr<Env> env) : env_(std::move(env)), spec_(env_->spec()) {}

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override { env_->reset(seed, out); }
  StepResult step(ArraysIn action, StepOut out) override { return env_->step(action, out); }
  // The wrapped environment's bytes, then the wrapper's.
  bool save(std::vector<std::byte>& bytes) const override;
  bool load(std::span<const std::byte> bytes) override;
  std::span<std::byte> statistics() override { return env_->statistics(); }
  BatchTraits batch() const override { return env_->batch(); }
  bool render(Image& image) override { return env_->render(image); }

 protected:
  // The wrapper's own state between steps, if any: plain data.
  virtual std::span<std::byte> memory() { return {}; }

  std::unique_ptr<Env> env_;
  EnvSpec spec_;
};

}  // namespace shoal
