#pragma once

#include "shoal/core/option.h"

// Options that several algorithms have in common; each function adds a group to a list.
namespace shoal {

template <class Options>
void add_optimizer(OptionList& list, Options& o) {
  list.add("optimizer", o.optimizer, "adam | rmsprop");
  list.add("optimizer_epsilon", o.optimizer_epsilon, "added to the root of the mean square",
           above_0());
  list.add("learning_rate", o.learning_rate, "initial learning rate", kRate);
}

template <class Options>
void add_anneal_learning_rate(OptionList& list, Options& o) {
  list.add("anneal_learning_rate", o.anneal_learning_rate,
           "lower the learning rate linearly to 0 over the schedule");
}

template <class Options>
void add_max_grad_norm(OptionList& list, Options& o) {
  list.add("max_grad_norm", o.max_grad_norm, "largest global norm of the gradient; 0: not clipped");
}

template <class Options>
void add_loss_weights(OptionList& list, Options& o) {
  list.add("value_coef", o.value_coef, "weight of the value loss");
  list.add("entropy_coef", o.entropy_coef, "weight of the entropy bonus", kAnySign);
}

template <class Options>
void add_vtrace_clips(OptionList& list, Options& o) {
  list.add("rho_bar", o.rho_bar, "V-trace clips importance ratios to this", above_0());
  list.add("c_bar", o.c_bar, "V-trace clips the ratios of its traces to this", above_0());
}

template <class Options>
void add_importance_weights(OptionList& list, Options& o) {
  list.add("beta_start", o.beta_start, "initial exponent (beta) of the importance weights", kShare);
  list.add("beta_end", o.beta_end, "exponent (beta) at the end of the schedule", kShare);
}

// The options that SAC, TD3 and DDPG share, apart from learning rates and exploration.
template <class Options>
void add_qpg_update(OptionList& list, Options& o) {
  add_anneal_learning_rate(list, o);
  list.add("batch", o.batch, "steps of one update", within(1, 1e6));
  list.add("precision", o.precision,
           "arithmetic of learning on the CPU: float32 | bf16 (float32 where that is not faster)");
  list.add("tau", o.tau, "fraction by which targets move with an update", above_0(1));
}

// The options that set_epsilons() reads.
template <class Options>
void add_epsilons(OptionList& list, Options& o) {
  list.add("epsilon_start", o.epsilon_start, "initial probability of a random action", kShare);
  list.add("epsilon_end", o.epsilon_end, "final probability of a random action", kShare);
  list.add("exploration_fraction", o.exploration_fraction,
           "fraction of the schedule over which the probability changes to the final one",
           within(1e-9, 1));
  list.add("epsilon_last", o.epsilon_last,
           "final probability of the last environment (off_policy.epsilon_each)", kShare);
}

}  // namespace shoal
