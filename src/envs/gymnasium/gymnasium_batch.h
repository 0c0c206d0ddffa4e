#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shoal/envs/batch_env.h"
#include "src/envs/gymnasium/gymnasium_library.h"

namespace shoal {

// A vector environment of Gymnasium, constructed in Python on first use, as GymnasiumEnv.
class GymnasiumBatch : public BatchEnv {
 public:
  GymnasiumBatch(GymnasiumTask task, EnvSpec spec, const BatchTraits& traits,
                 std::string description, std::int64_t envs)
      : task_(std::move(task)),
        spec_(std::move(spec)),
        traits_(traits),
        description_(std::move(description)),
        envs_(envs) {}

  const EnvSpec& spec() const override { return spec_; }
  BatchTraits traits() const override { return traits_; }
  void reset(std::span<const std::uint64_t> seeds, const BatchOut& out) override;
  void step(ArraysIn action, const BatchOut& out) override;

 private:
  void open();
  shoal_gymnasium_vector_out pointers(const BatchOut& out);
  void check(int result) const;

  GymnasiumTask task_;
  EnvSpec spec_;
  BatchTraits traits_;
  std::string description_;
  std::int64_t envs_;
  GymnasiumVectorHandle env_;
  GymnasiumFailure failure_;
  std::vector<std::uint8_t*> observation_, final_observation_;
  std::vector<float*> info_;
  std::vector<const std::uint8_t*> action_;
};

}  // namespace shoal
