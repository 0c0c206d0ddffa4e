#pragma once

#include <cstdint>
#include <string>

#include "src/core/option_checks.h"

// What the options of several algorithms must hold, whether a program or a file of settings gives
// them. Each throws Error naming "<algo>.<option>".
namespace shoal {

// Of all that make the steps of an Optimizer.
template <class Options>
void check_optimization(const std::string& algo, const Options& o) {
  require_above_0(algo + ".learning_rate", o.learning_rate);
  require_above_0(algo + ".optimizer_epsilon", o.optimizer_epsilon);
  require_at_least(algo + ".max_grad_norm", o.max_grad_norm, 0.0);
}

// Of the on-policy ones.
template <class Options>
void check_options(const std::string& algo, const Options& o) {
  check_optimization(algo, o);
  require_within(algo + ".discount", o.discount, 0, 1);
  if constexpr (requires { o.gae_lambda; })
    require_within(algo + ".gae_lambda", o.gae_lambda, 0, 1);
  if constexpr (requires { o.lambda; }) require_within(algo + ".lambda", o.lambda, 0, 1);
  if constexpr (requires { o.rho_bar; }) {
    require_above_0(algo + ".rho_bar", o.rho_bar);
    require_above_0(algo + ".c_bar", o.c_bar);
  }
}

// Of DQN and R2D1.
template <class Options>
void check_q_options(const std::string& algo, const Options& o) {
  check_optimization(algo, o);
  require_at_least<std::int64_t>(algo + ".batch", o.batch, 1);
  require_at_least<std::int64_t>(algo + ".target_interval", o.target_interval, 1);
  require_at_least(algo + ".huber", o.huber, 0.0);
  require_within(algo + ".epsilon_start", o.epsilon_start, 0, 1);
  require_within(algo + ".epsilon_end", o.epsilon_end, 0, 1);
  require_within(algo + ".epsilon_last", o.epsilon_last, 0, 1);
  require_within(algo + ".epsilon_share", o.epsilon_share, 1e-9, 1);
}

// Of those whose importance weights follow a schedule.
template <class Options>
void check_betas(const std::string& algo, const Options& o) {
  require_within(algo + ".beta_start", o.beta_start, 0, 1);
  require_within(algo + ".beta_end", o.beta_end, 0, 1);
}

}  // namespace shoal
