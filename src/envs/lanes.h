#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shoal/envs/batch_env.h"

namespace shoal {

// The environments of one batch, which the factory of make_batched() constructs.
class Lanes {
 public:
  // seeds: one for each environment, from the environment `first` on.
  Lanes(std::int64_t first, std::vector<std::uint64_t> seeds, Stream stream);

  // Constructs the batch, if it is not yet.
  void open(const BatchEnvFactory& make_batch);
  bool opened() const { return batch_ != nullptr; }
  const EnvSpec& spec() const { return spec_; }
  BatchTraits traits() const { return traits_; }
  BatchEnv& env() { return *batch_; }
  std::int64_t size() const { return std::ssize(seeds_); }
  std::int64_t lane_of(std::int64_t env) const { return env - first_; }

  // Steps all environments; they write to `out`, apart from BatchOut::waits.
  void step_into(ArraysIn action, BatchOut out);
  // The same, and a reset of all environments, in private memory. Each Lane's step() and reset()
  // then read its part.
  void step(ArraysIn action);
  void reset(std::span<const std::uint64_t> seeds);
  // Whether this environment is between two episodes.
  bool waits(std::int64_t lane) const { return waits_[at(lane)] != 0; }

 private:
  friend class Lane;
  struct Arrays {  // of all environments
    std::vector<std::vector<std::byte>> bytes;
    std::vector<std::byte*> first;
    void add(std::int64_t envs, std::size_t each);
    void copy(std::int64_t envs, std::int64_t lane, const ArraysOut& to) const;
  };
  static std::size_t at(std::int64_t lane) { return static_cast<std::size_t>(lane); }
  BatchOut memory();
  void read(std::int64_t lane, const Arrays& observation, const std::vector<std::uint8_t>& mask,
            const StepOut& to) const;
  bool take_first(std::int64_t lane, const StepOut& to);
  StepResult take_step(std::int64_t lane, const StepOut& to) const;
  // The bytes of an observation and a mask in private memory.
  std::vector<std::span<std::byte>> first_of(std::int64_t lane);

  std::int64_t first_;
  std::vector<std::uint64_t> seeds_;
  Stream stream_;
  std::unique_ptr<BatchEnv> batch_;
  EnvSpec spec_;
  BatchTraits traits_;
  std::int64_t steps_ = 0;
  Arrays observation_, info_, final_observation_;
  std::vector<float> reward_;
  // One byte each, 0 or 1. fresh_: the observation is the first of an episode, and unread.
  std::vector<std::uint8_t> mask_, final_mask_, terminated_, truncated_, waits_, waited_, fresh_;
};

// One environment of a batch. On its own it steps and resets the batch; among others it reads what
// Lanes::step() and reset() have written.
class Lane : public Env {
 public:
  Lane(std::shared_ptr<Lanes> lanes, std::int64_t lane, bool alone)
      : lanes_(std::move(lanes)), lane_(lane), alone_(alone) {}

  const EnvSpec& spec() const override { return lanes_->spec(); }
  BatchTraits batch() const override { return lanes_->traits(); }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override;
  StepResult step(ArraysIn action, StepOut out) override;
  // The environment's own state, then an unread first observation, and whether there is one.
  bool save(std::vector<std::byte>& bytes) const override;
  bool load(std::span<const std::byte> bytes) override;

 private:
  void wait_for_episode();

  std::shared_ptr<Lanes> lanes_;
  std::int64_t lane_;
  bool alone_;
  std::int64_t read_ = 0;  // steps
};

}  // namespace shoal
