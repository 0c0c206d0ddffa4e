#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// Passes everything on to another environment: a base for wrappers, which override what they
// change.
class Wrapper : public Env {
 public:
  explicit Wrapper(std::unique_ptr<Env> env) : env_(std::move(env)), spec_(env_->spec()) {}

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override { env_->reset(seed, out); }
  StepResult step(ArraysIn action, StepOut out) override { return env_->step(action, out); }
  // The environment's bytes, then the wrapper's.
  bool save(std::vector<std::byte>& bytes) const override;
  bool load(std::span<const std::byte> bytes) override;
  std::span<std::byte> statistics() override { return env_->statistics(); }
  bool render(Image& image) override { return env_->render(image); }

 protected:
  // What the wrapper itself must remember from step to step, if anything: plain data.
  virtual std::span<std::byte> memory() { return {}; }

  std::unique_ptr<Env> env_;
  EnvSpec spec_;
};

}  // namespace shoal
