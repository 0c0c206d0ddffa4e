#pragma once

#include "runners/setting_range.h"
#include "shoal/runners/config.h"

namespace shoal {

// The one list of settings: visit(key, field, meaning) for each, and the range of a number that has
// another one than default_range(). Reading, writing, --set, the help text and validate() follow
// it. The part of a key before the dot is its table in a file; settings of a table stand together,
// those without one come first.
template <class C, class Visit>
void visit_run(C& c, Visit&& visit) {
  visit("base", c.base, "the preset this started from");
  visit("algo", c.algo, "learning algorithm: ppo, a2c, impala, dqn, r2d1, ddpg, td3 or sac");
  visit("steps", c.steps, "agent steps to take, all environments together", kCount);
  visit("schedule_steps", c.schedule_steps,
        "steps over which schedules run; 0: as many as `steps`");
  visit("stop_return", c.stop_return,
        "stop once the mean score of the last 100 episodes reaches this; inf: never", kAnyNumber);
  visit("init_from", c.init_from, "a run folder whose weights this one begins with");
  visit("checkpoint_seconds", c.checkpoint_seconds, "seconds between checkpoints", above_0());
  visit("checkpoint_steps", c.checkpoint_steps, "also steps between checkpoints; 0: time only");
  visit("keep_checkpoints", c.keep_checkpoints, "how many of the last checkpoints stay", kCount);
  visit("log_steps", c.log_steps, "steps between rows of progress.csv; 0: one for every window");
  visit("table_seconds", c.table_seconds,
        "seconds between tables of all numbers on the console; 0: none");
  visit("tensorboard", c.tensorboard, "also write the rows of progress.csv for TensorBoard");
  visit("eval_steps", c.eval_steps,
        "steps between evaluations, which the training waits for; 0: none");
  visit("eval_episodes", c.eval_episodes, "complete episodes in each of them, greedy",
        within(1, kMostNumber));
  visit("live_eval_seconds", c.live_eval_seconds,
        "seconds between evaluations by a process beside the training, which waits for none; 0: "
        "none");
  visit("seed", c.seed, "of environments, actions, initial weights and minibatches",
        within(0, 0x1p63));
  visit("device", c.device, "where the agent acts and learns: cpu, cuda or cuda:N");
  visit("threads", c.threads,
        "threads of tensor arithmetic, in each rank; 0: one per core it may use", within(0, 4096));
  visit("stop_grace", c.stop_grace,
        "seconds in which the window under way may be completed after SIGINT, SIGTERM or SIGHUP",
        within(0, 1e6));
  visit("ranks", c.ranks,
        "processes that learn together, each with its share of environments, workers and cores",
        within(1, kMostRanks));
  visit("rank_timeout", c.rank_timeout, "seconds that one of them waits for another", above_0(1e6));
  visit(
      "rank_backend", c.rank_backend,
      "how processes of a launcher speak to one another: auto, tcp or mpi; nccl: with tcp or mpi, "
      "gradients on GPUs by NCCL, which auto does, too, where each rank has a GPU");
}

template <class C, class Visit>
void visit_env(C& c, Visit&& visit) {
  visit("env.id", c.env_id, "environment, by its Gymnasium name");
  visit("env.keep_observation", c.env.keep_observation,
        "places of the observed numbers that the agent sees, e.g. [0, 2]; empty: all",
        within(0, kMostNumber));
  visit("env.action_repeat", c.env.action_repeat, "times that each action is taken",
        within(1, 1e6));
  visit("env.time_limit", c.env.time_limit,
        "agent steps after which an episode is truncated; 0: the environment's own limit");
  visit("env.reward_scale", c.env.reward_scale, "rewards are multiplied by this", kAnySign);
  visit("env.normalize_reward", c.env.normalize_reward,
        "divide rewards by the running deviation of their sum, discounted by 0.99");
  visit("env.reward_clip", c.env.reward_clip, "then cut them to this size; 0: not");
  auto& a = c.env.atari;
  visit("atari.frame_skip", a.frame_skip, "frames of one agent step", within(1, 1000));
  visit("atari.noop_max", a.noop_max, "at most this many no-ops start an episode; 0: none",
        within(0, 1e6));
  visit("atari.fire_on_reset", a.fire_on_reset,
        "press FIRE at the start, in games that wait for it");
  visit("atari.episodic_life", a.episodic_life, "a lost life ends the episode for the agent");
  visit("atari.sticky", a.sticky, "probability that the last action is repeated", kShare);
  visit("atari.clip_reward", a.clip_reward, "the agent sees the sign of the reward only");
  visit("atari.full_action_set", a.full_action_set, "all 18 actions instead of those of the game");
  visit("atari.max_frames", a.max_frames, "frames after which an episode is truncated", kCount);
  visit("atari.stack", a.stack, "frames in one observation", within(1, 256));
  visit("atari.screen", a.screen, "height and width of a frame, in pixels", within(16, 160));
  visit("atari.rgb", a.rgb, "frames in colour instead of gray");
  visit("gymnasium.kwargs", c.env.gymnasium.kwargs, "of gymnasium.make, as a JSON object",
        within(0, 60'000));
  visit("gymnasium.python", c.env.gymnasium.python,
        "the interpreter; empty: $SHOAL_PYTHON, the active environment's, or the build's");
}

template <class C, class Visit>
void visit_sampler(C& c, Visit&& visit) {
  auto& s = c.sampler;
  visit("sampler.kind", s.kind, "serial | parallel-cpu | parallel-gpu");
  visit("sampler.horizon", s.horizon, "steps of each environment in one window", within(1, 0x1p40));
  visit("sampler.envs", s.envs, "environments", within(1, 0x1p40));
  visit("sampler.workers", s.workers,
        "processes that step them; 0: one for each core, as far as they can share",
        within(0, 4096));
  visit("sampler.groups", s.groups, "2: one half is stepped while actions are chosen for the other",
        within(1, 2));
  visit("sampler.batch", s.batch,
        "0: act for all environments in lock-step; else for whoever is there, once so many are "
        "(parallel-gpu)");
  visit("sampler.batch_wait_us", s.batch_wait_us, "or so many microseconds after the first of them",
        within(0, kMostNumber));
  visit("sampler.preempt_share", s.preempt_share,
        "with sampler.batch: when this share of the environments has filled its window, the others "
        "stop early; 1: never",
        above_0(1));
  visit("sampler.reset", s.reset,
        "an episode that is over: at-once | wait (for the end of the window)");
  visit("sampler.decorrelation", s.decorrelation,
        "at most this many random steps of each environment come first", within(0, 1e6));
  visit("sampler.step_limit", s.step_limit, "seconds after which a step counts as a death");
  visit("sampler.reset_limit", s.reset_limit, "seconds after which a reset counts as a death");
  visit("sampler.on_death", s.on_death,
        "a worker that dies ends the run, or is started anew: fail | restart");
  visit("sampler.pin", s.pin, "bind each worker to a core");
  visit("sampler.cores", s.cores, "cores for that, by turns; empty: those this process may use",
        within(0, 1e6));
  visit("sampler.asynchronous", c.asynchronous, "sampling goes on while the agent learns");
  auto& a = c.async;
  visit("async.slots", a.slots,
        "windows that are written, wait or are learned from; 0: one for each that writes, and two",
        within(0, 10'000));
  visit("async.max_lag", a.max_lag,
        "batches by which the policy of a window may lie behind the one that learns from it",
        within(0, 0x1p63));
  visit("async.too_old", a.too_old, "what becomes of older windows: use | drop");
  visit("async.drain", a.drain,
        "once no slot is free, sampling rests until all that waits has been learned from");
  visit("async.publish_interval", a.publish_interval,
        "batches learned from between two policies for the sampler", kCount);
}

template <class C, class Visit>
void visit_agent(C& c, Visit&& visit) {
  visit("agent.act_precision", c.agent.act_precision,
        "arithmetic of acting on the CPU: float32 | bf16");
  visit("agent.initial_std", c.agent.initial_std,
        "deviation of real-valued actions before learning, in half-widths of their bounds",
        above_0());
  visit("agent.network_std", c.agent.network_std,
        "the network puts out deviations; else they are parameters");
  visit("agent.squash", c.agent.squash,
        "keep real-valued actions within their bounds by tanh, not by cutting them");
  visit("agent.normalize_observation", c.agent.normalize_observation,
        "bring observed numbers to mean 0 and deviation 1, as seen so far");
  visit("model.name", c.model.name, "mlp | nature-cnn");
  visit("model.hidden", c.model.hidden, "units of each hidden layer (mlp)", within(1, 0x1p32));
  visit("model.shared_trunk", c.model.shared_trunk,
        "policy and value share the hidden layers (mlp)");
  visit("model.precision", c.model.precision,
        "arithmetic of learning: float32 | bf16 (nature-cnn)");
  visit("model.memory", c.model.memory,
        "behind the layers, which are shared then: none | lstm | gru");
  visit("model.memory_size", c.model.memory_size, "its units", within(1, 1e6));
  visit("model.memory_sees_previous", c.model.memory_sees_previous,
        "it also reads the previous action and reward");
}

template <class C, class Visit>
void visit_ppo(C& c, Visit&& visit) {
  auto& p = c.ppo;
  visit("ppo.optimizer", p.optimizer, "adam | rmsprop");
  visit("ppo.optimizer_epsilon", p.optimizer_epsilon, "added to the root of the mean square",
        above_0());
  visit("ppo.learning_rate", p.learning_rate, "at the start", kRate);
  visit("ppo.discount", p.discount, "gamma", kShare);
  visit("ppo.gae_lambda", p.gae_lambda, "lambda of generalized advantage estimation", kShare);
  visit("ppo.epochs", p.epochs, "passes over a window", within(1, 1e6));
  visit("ppo.minibatches", p.minibatches, "updates in each pass", within(1, kMostNumber));
  visit("ppo.accumulate", p.accumulate,
        "pieces in which the gradient of an update is found, to save memory", within(1, 1e6));
  visit("ppo.clip", p.clip, "the probability ratio stays in [1 - clip, 1 + clip]", above_0());
  visit("ppo.value_clip", p.value_clip, "likewise the value's change; 0: not clipped");
  visit("ppo.value_coef", p.value_coef, "weight of the value loss");
  visit("ppo.entropy_coef", p.entropy_coef, "weight of the entropy bonus", kAnySign);
  visit("ppo.max_grad_norm", p.max_grad_norm, "global norm; 0: not clipped");
  visit("ppo.normalize_advantage", p.normalize_advantage,
        "to mean 0 and deviation 1 over: none | window | minibatch");
  visit("ppo.anneal_learning_rate", p.anneal_learning_rate, "linearly to 0 over the schedule");
  visit("ppo.anneal_clip", p.anneal_clip, "linearly to 0 over the schedule, value_clip, too");
  visit("ppo.vtrace", p.vtrace,
        "V-trace, for windows that an older policy made (with sampler.asynchronous: APPO)");
  visit("ppo.rho_bar", p.rho_bar, "where V-trace cuts the ratios of policies", above_0());
  visit("ppo.c_bar", p.c_bar, "likewise those of its traces", above_0());
  visit("ppo.target_kl", p.target_kl, "stop the passes of a window beyond this KL; 0: never");
  visit("ppo.slices", p.slices,
        "slices of environments that every minibatch takes as much of; 0: one for each rank",
        within(0, 1e6));
}

template <class C, class Visit>
void visit_a2c(C& c, Visit&& visit) {
  auto& a = c.a2c;
  visit("a2c.optimizer", a.optimizer, "adam | rmsprop");
  visit("a2c.optimizer_epsilon", a.optimizer_epsilon, "added to the root of the mean square",
        above_0());
  visit("a2c.learning_rate", a.learning_rate, "at the start", kRate);
  visit("a2c.discount", a.discount, "gamma", kShare);
  visit("a2c.gae_lambda", a.gae_lambda, "lambda of generalized advantage estimation", kShare);
  visit("a2c.accumulate", a.accumulate,
        "pieces in which the gradient of an update is found, to save memory", within(1, 1e6));
  visit("a2c.value_coef", a.value_coef, "weight of the value loss");
  visit("a2c.entropy_coef", a.entropy_coef, "weight of the entropy bonus", kAnySign);
  visit("a2c.max_grad_norm", a.max_grad_norm, "global norm; 0: not clipped");
  visit("a2c.normalize_advantage", a.normalize_advantage, "per window");
  visit("a2c.anneal_learning_rate", a.anneal_learning_rate, "linearly to 0 over the schedule");
}

template <class C, class Visit>
void visit_impala(C& c, Visit&& visit) {
  auto& i = c.impala;
  visit("impala.optimizer", i.optimizer, "adam | rmsprop");
  visit("impala.optimizer_epsilon", i.optimizer_epsilon, "added to the root of the mean square",
        above_0());
  visit("impala.learning_rate", i.learning_rate, "at the start", kRate);
  visit("impala.discount", i.discount, "gamma", kShare);
  visit("impala.lambda", i.lambda, "lambda of V-trace", kShare);
  visit("impala.rho_bar", i.rho_bar, "where it cuts the ratios of policies", above_0());
  visit("impala.c_bar", i.c_bar, "likewise those of its traces", above_0());
  visit("impala.value_coef", i.value_coef, "weight of the value loss");
  visit("impala.entropy_coef", i.entropy_coef, "weight of the entropy bonus", kAnySign);
  visit("impala.max_grad_norm", i.max_grad_norm, "global norm; 0: not clipped");
  visit("impala.anneal_learning_rate", i.anneal_learning_rate, "linearly to 0 over the schedule");
}

template <class C, class Visit>
void visit_off_policy(C& c, Visit&& visit) {
  visit("off_policy.learning_starts", c.off_policy.learning_starts,
        "steps that are taken at random before anything is learned");
  visit("off_policy.replay_ratio", c.off_policy.replay_ratio,
        "steps learned from for each one that is taken", above_0(1e6));
  visit("off_policy.epsilon_each", c.epsilon_each,
        "every environment has an epsilon of its own, from epsilon_end to epsilon_last");
  auto& r = c.replay;
  visit("replay.size", r.size, "steps that are kept", within(1, 0x1p40));
  visit("replay.n_step", r.n_step, "rewards that are added up before a value is looked at",
        within(1, 255));
  visit("replay.discount", r.discount, "gamma", kShare);
  visit("replay.prioritized", r.prioritized, "draw steps by their priority, not all alike");
  visit("replay.alpha", r.alpha, "power of the priorities", kShare);
  visit("replay.slices", c.replay_slices,
        "slices of environments that every batch takes as much of; 0: one for each rank",
        within(0, 1e6));
  visit("replay.shared", c.replay_shared,
        "all ranks draw from one replay, on one machine; else each from its own");
}

template <class C, class Visit>
void visit_dqn(C& c, Visit&& visit) {
  auto& d = c.dqn;
  visit("dqn.optimizer", d.optimizer, "adam | rmsprop");
  visit("dqn.optimizer_epsilon", d.optimizer_epsilon, "added to the root of the mean square",
        above_0());
  visit("dqn.learning_rate", d.learning_rate, "of all updates", kRate);
  visit("dqn.anneal_learning_rate", d.anneal_learning_rate, "linearly to 0 over the schedule");
  visit("dqn.batch", d.batch, "steps of one update", within(1, 1e6));
  visit("dqn.double_q", d.double_q,
        "the target network values the action that the other one would choose");
  visit("dqn.dueling", c.q.dueling, "values are that of the observation plus advantages");
  visit("dqn.returns", c.q.returns, "what is learned of them: mean | categorical | quantile");
  visit("dqn.atoms", c.q.atoms, "categories or quantiles", within(2, 10'000));
  visit("dqn.v_min", c.q.v_min, "the return of the first category", kAnySign);
  visit("dqn.v_max", c.q.v_max, "that of the last", kAnySign);
  visit("dqn.noisy", c.q.noisy, "weights are drawn at random: exploration without epsilon");
  visit("dqn.noise", c.q.noise, "their deviation at first, times the root of a layer's inputs",
        above_0());
  visit("dqn.target_interval", d.target_interval, "updates between two of the target network",
        kCount);
  visit("dqn.target_share", d.target_share, "how far it moves then; 1: it becomes a copy",
        within(1e-9, 1));
  visit("dqn.huber", d.huber, "errors beyond this count linearly; 0: the square of all");
  visit("dqn.max_grad_norm", d.max_grad_norm, "global norm; 0: not clipped");
  visit("dqn.beta_start", d.beta_start,
        "how far importance weights make up for priorities, at first", kShare);
  visit("dqn.beta_end", d.beta_end, "likewise at the end of the schedule", kShare);
  visit("dqn.epsilon_start", d.epsilon_start, "probability of an action at random, at first",
        kShare);
  visit("dqn.epsilon_end", d.epsilon_end, "likewise later", kShare);
  visit("dqn.epsilon_share", d.epsilon_share, "part of the schedule until then", within(1e-9, 1));
  visit("dqn.epsilon_last", d.epsilon_last,
        "likewise of the last environment (off_policy.epsilon_each)", kShare);
}

template <class C, class Visit>
void visit_r2d1(C& c, Visit&& visit) {
  auto& r = c.r2d1;
  visit("r2d1.optimizer", r.optimizer, "adam | rmsprop");
  visit("r2d1.optimizer_epsilon", r.optimizer_epsilon, "added to the root of the mean square",
        above_0());
  visit("r2d1.learning_rate", r.learning_rate, "of all updates", kRate);
  visit("r2d1.anneal_learning_rate", r.anneal_learning_rate, "linearly to 0 over the schedule");
  visit("r2d1.batch", r.batch, "sequences of one update", within(1, 1e6));
  visit("r2d1.burn_in", c.r2d1_burn_in, "steps of each that only bring its state up to date",
        within(0, 1e6));
  visit("r2d1.length", c.r2d1_length, "steps behind those, to learn from", within(1, 1e6));
  visit("r2d1.dueling", c.recurrent_q.dueling,
        "values are that of the observation plus advantages");
  visit("r2d1.target_interval", r.target_interval, "updates between two of the target network",
        kCount);
  visit("r2d1.huber", r.huber, "errors beyond this count linearly; 0: the square of all");
  visit("r2d1.max_grad_norm", r.max_grad_norm, "global norm; 0: not clipped");
  visit("r2d1.value_scale", r.value_scale, "epsilon of the rescaling of values", above_0(1));
  visit("r2d1.priority_eta", r.priority_eta,
        "a priority is this much of a sequence's largest error, the rest of their mean", kShare);
  visit("r2d1.beta", r.beta, "how far importance weights make up for priorities", kShare);
  visit("r2d1.epsilon_start", r.epsilon_start, "probability of an action at random, at first",
        kShare);
  visit("r2d1.epsilon_end", r.epsilon_end, "likewise later", kShare);
  visit("r2d1.epsilon_share", r.epsilon_share, "part of the schedule until then", within(1e-9, 1));
  visit("r2d1.epsilon_last", r.epsilon_last,
        "likewise of the last environment (off_policy.epsilon_each)", kShare);
}

template <class C, class Visit>
void visit_control(C& c, Visit&& visit) {
  auto& d = c.ddpg;
  visit("ddpg.critic_rate", d.critic_rate, "learning rate of the critic", kRate);
  visit("ddpg.policy_rate", d.policy_rate, "that of the policy", kRate);
  visit("ddpg.anneal_learning_rate", d.anneal_learning_rate, "linearly to 0 over the schedule");
  visit("ddpg.batch", d.batch, "steps of one update", within(1, 1e6));
  visit("ddpg.precision", d.precision, "arithmetic of learning on the CPU: float32 | bf16");
  visit("ddpg.tau", d.tau, "how far targets move with an update", kShare);
  visit("ddpg.exploration_noise", d.exploration_noise,
        "deviation of the noise on actions, in half-widths of their bounds");
  visit("ddpg.beta_start", d.beta_start,
        "how far importance weights make up for priorities, at first", kShare);
  visit("ddpg.beta_end", d.beta_end, "likewise at the end of the schedule", kShare);
  auto& t = c.td3;
  visit("td3.critic_rate", t.critic_rate, "learning rate of the critics", kRate);
  visit("td3.policy_rate", t.policy_rate, "that of the policy", kRate);
  visit("td3.anneal_learning_rate", t.anneal_learning_rate, "linearly to 0 over the schedule");
  visit("td3.batch", t.batch, "steps of one update", within(1, 1e6));
  visit("td3.precision", t.precision, "arithmetic of learning on the CPU: float32 | bf16");
  visit("td3.tau", t.tau, "how far targets move", kShare);
  visit("td3.policy_interval", t.policy_interval,
        "updates between two of the policy and the targets", kCount);
  visit("td3.target_noise", t.target_noise, "deviation of the noise on the target's actions");
  visit("td3.target_clip", t.target_clip, "that noise is cut here");
  visit("td3.exploration_noise", t.exploration_noise, "deviation of the noise on actions");
  visit("td3.beta_start", t.beta_start,
        "how far importance weights make up for priorities, at first", kShare);
  visit("td3.beta_end", t.beta_end, "likewise at the end of the schedule", kShare);
  auto& s = c.sac;
  visit("sac.learning_rate", s.learning_rate, "of critics, policy and temperature", kRate);
  visit("sac.anneal_learning_rate", s.anneal_learning_rate, "linearly to 0 over the schedule");
  visit("sac.batch", s.batch, "steps of one update", within(1, 1e6));
  visit("sac.precision", s.precision, "arithmetic of learning on the CPU: float32 | bf16");
  visit("sac.tau", s.tau, "how far the target critics move with an update", kShare);
  visit("sac.alpha", s.alpha, "temperature, at first if it is learned", above_0());
  visit("sac.learn_alpha", s.learn_alpha, "it is learned");
  visit("sac.target_entropy", s.target_entropy, "of each number of the action, that it aims at",
        kAnySign);
  visit("sac.beta_start", s.beta_start,
        "how far importance weights make up for priorities, at first", kShare);
  visit("sac.beta_end", s.beta_end, "likewise at the end of the schedule", kShare);
}

template <class C, class Visit>
void visit_settings(C& config, Visit&& visit) {
  visit_run(config, visit);
  visit_env(config, visit);
  visit_sampler(config, visit);
  visit_agent(config, visit);
  visit_ppo(config, visit);
  visit_a2c(config, visit);
  visit_impala(config, visit);
  visit_off_policy(config, visit);
  visit_dqn(config, visit);
  visit_r2d1(config, visit);
  visit_control(config, visit);
}

}  // namespace shoal
