#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "shoal/core/rng.h"
#include "shoal/data/samples.h"

// The reference for replays: all steps, in plain vectors.
namespace shoal {

inline constexpr std::int64_t kEnvs = 3, kActions = 5;

inline EnvSpec toy_spec(int stack) {
  EnvSpec spec;
  spec.id = "Toy";
  spec.observation = {{"picture", {.dtype = DType::kInt32, .shape = {2}, .stack = stack}},
                      {"pose", {.dtype = DType::kFloat32, .shape = {3}}}};
  spec.action = ActionSpec::discrete(kActions);
  spec.action_mask = true;
  return spec;
}

// One step.
struct Moment {
  int frame = 0;  // the observation, as one number; never 0
  std::int64_t action = 0;
  bool legal[kActions] = {};
  float reward = 0;
  bool terminated = false, truncated = false, is_first = false, valid = true;
  int last_frame = 0;              // seen after a step that ended an episode
  bool last_legal[kActions] = {};  // then
  bool lost = false;               // not valid, with a known observation: the worker died in it
};

// Makes rollouts of an imaginary sampler, and records them.
class History {
 public:
  History(int stack, bool waits, std::uint64_t seed) : stack_(stack), waits_(waits), rng_(seed) {
    for (auto& env : envs_) env.push_back(begin());
  }

  const Moment& at(std::int64_t tick, std::int64_t b) const {
    return envs_[static_cast<std::size_t>(b)][static_cast<std::size_t>(tick)];
  }
  std::int64_t ticks() const { return ticks_; }
  // Like Sampler::save(), which resets environments that cannot be saved.
  void reset_between_rollouts(std::int64_t b) {
    auto& env = envs_[static_cast<std::size_t>(b)];
    if (!env.back().valid || env.back().is_first) return;
    auto& last = env[env.size() - 2];
    last.truncated = true;
    end_with(last, env.back());
    env.back() = begin();
  }

  Samples rollout(std::int64_t T) {
    Samples s;
    s.T = T;
    s.B = kEnvs;
    s.first_tick = ticks_;
    s.observation = {{"picture", at::zeros({T + 1, kEnvs, 2}, at::kInt)},
                     {"pose", at::zeros({T + 1, kEnvs, 3})}};
    s.action = at::zeros({T, kEnvs}, at::kLong);
    s.mask = at::zeros({T + 1, kEnvs, kActions}, at::kBool);
    s.reward = at::zeros({T, kEnvs});
    for (auto* flag : {&s.terminated, &s.truncated, &s.valid})
      *flag = at::zeros({T, kEnvs}, at::kBool);
    s.is_first = at::zeros({T + 1, kEnvs}, at::kBool);
    std::vector<int> last;  // frames of the final observations
    for (std::int64_t t = 0; t <= T; ++t) {
      for (std::int64_t b = 0; b < kEnvs; ++b) {
        auto& env = envs_[static_cast<std::size_t>(b)];
        if (t == 0 && waits_ && !env.back().valid) env.back() = begin();
        const auto& now = t < T ? take_step(env) : env.back();
        write(s, t, b, now);
        if (t < T && now.last_frame != 0) {
          s.final_obs.t.push_back(t);
          s.final_obs.b.push_back(b);
          last.push_back(now.last_frame);
        }
      }
    }
    ticks_ += T;
    add_finals(s, last);
    return s;
  }

  static at::Tensor picture(int frame) { return at::tensor({frame, 7 * frame}, at::kInt); }
  // The action mask at the end of an episode, with this frame.
  static bool legal_at_the_end(int frame, std::int64_t action) { return (frame + action) % 2 == 0; }
  static at::Tensor pose(int frame) {
    return at::tensor({1.0F * static_cast<float>(frame), 0.5F, -1.0F * static_cast<float>(frame)});
  }

 private:
  static void end_with(Moment& last, const Moment& seen) {
    last.last_frame = seen.frame;
    std::ranges::copy(seen.legal, last.last_legal);
  }
  Moment begin() {
    Moment m;
    m.is_first = true;
    show(m);
    return m;
  }
  void show(Moment& m) {
    m.frame = ++frames_;
    for (auto& legal : m.legal) legal = rng_.integer(0, 2) == 0;
  }
  const Moment& take_step(std::deque<Moment>& env) {
    auto& now = env.back();
    Moment next;
    if (now.valid) {
      now.action = rng_.integer(0, kActions);
      now.reward = static_cast<float>(rng_.integer(-5, 6));
      const auto kind = rng_.integer(0, 12);
      if (waits_ && kind == 3) return lose(env);
      now.terminated = kind == 0 || kind == 1;
      now.truncated = kind == 2 || (kind == 1 && rng_.integer(0, 2) == 0);
      const bool life_lost = kind == 0 && rng_.integer(0, 2) == 0 && !waits_;
      if ((now.terminated || now.truncated) && !life_lost) {
        now.last_frame = ++frames_;
        for (std::int64_t a = 0; a < kActions; ++a)
          now.last_legal[a] = legal_at_the_end(now.last_frame, a);
      }
      next.is_first = now.terminated || now.truncated;
      if (next.is_first && waits_) {
        next = {};
        next.valid = false;
      } else {
        show(next);
      }
    } else {
      next.valid = false;
    }
    env.push_back(next);
    return env[env.size() - 2];
  }
  // The previous episode ended with the current observation.
  static const Moment& lose(std::deque<Moment>& env) {
    auto& now = env.back();
    if (!now.is_first) {
      auto& before = env[env.size() - 2];
      before.truncated = true;
      end_with(before, now);
    }
    now.valid = false;
    now.lost = true;
    now.action = 0;
    now.reward = 0;
    Moment next;
    next.valid = false;
    env.push_back(next);
    return env[env.size() - 2];
  }
  void write(Samples& s, std::int64_t t, std::int64_t b, const Moment& m) const {
    if (m.valid || m.lost) {
      s.observation.at("picture")[t][b].copy_(picture(m.frame));
      s.observation.at("pose")[t][b].copy_(pose(m.frame));
      for (std::int64_t a = 0; a < kActions; ++a) s.mask[0][t][b][a] = m.legal[a];
    }
    s.is_first[t][b] = m.is_first;
    if (t == s.T) return;
    s.valid[t][b] = m.valid;
    s.action[0][t][b] = m.action;
    s.reward[t][b] = m.reward;
    s.terminated[t][b] = m.terminated;
    s.truncated[t][b] = m.truncated || m.lost;
  }
  // Complete stacks, of which the newest is the last frame.
  void add_finals(Samples& s, const std::vector<int>& last) const {
    const auto K = static_cast<std::int64_t>(last.size());
    auto pictures = at::full({K * stack_, 2}, -99, at::kInt), poses = at::zeros({K, 3});
    auto masks = at::zeros({K, kActions}, at::kBool);
    for (std::int64_t k = 0; k < K; ++k) {
      pictures[k * stack_ + stack_ - 1].copy_(picture(last[static_cast<std::size_t>(k)]));
      poses[k].copy_(pose(last[static_cast<std::size_t>(k)]));
      for (std::int64_t a = 0; a < kActions; ++a)
        masks[k][a] = legal_at_the_end(last[static_cast<std::size_t>(k)], a);
    }
    Observed stacked{pictures, {}};
    if (stack_ > 1) stacked.index = at::arange(K * stack_, at::kLong).view({K, stack_});
    s.final_obs.observation = {{"picture", stacked}, {"pose", {poses, {}}}};
    s.final_obs.mask = masks;
  }

  int stack_;
  bool waits_;
  Rng rng_;
  int frames_ = 0;
  std::int64_t ticks_ = 0;
  std::deque<Moment> envs_[kEnvs];
};

// ---- The expected contents of a step, from the history ----

// The stack that is seen with `newest`, the frames before it from `tick` on backwards.
inline at::Tensor stack_of(const History& h, int newest, std::int64_t tick, std::int64_t b,
                           bool episode_begins, int stack) {
  std::vector<at::Tensor> frames{History::picture(newest)};
  bool blank = episode_begins;
  for (int s = 1; s < stack; ++s, --tick) {
    frames.insert(frames.begin(),
                  blank ? at::zeros({2}, at::kInt) : History::picture(h.at(tick, b).frame));
    if (!blank) blank = h.at(tick, b).is_first;
  }
  return stack == 1 ? frames[0] : at::stack(frames);
}

// ---- Rollouts ----

inline NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copy;
  for (const auto& [name, tensor] : tensors) copy.add(name, tensor.clone());
  return copy;
}

// Environments [first, first + envs) of a rollout, including final observations.
inline Samples part_of(const Samples& s, std::int64_t first, std::int64_t envs) {
  auto part = s;
  part.B = envs;
  const auto narrow = [&](at::Tensor& x) { x = x.narrow(1, first, envs).contiguous(); };
  for (auto* all : {&part.observation, &part.action, &part.mask})
    for (auto& [name, x] : *all) narrow(x);
  for (auto* x : {&part.reward, &part.terminated, &part.truncated, &part.is_first, &part.valid})
    narrow(*x);
  auto& final_obs = part.final_obs;
  final_obs.t.clear(), final_obs.b.clear();
  std::vector<std::int64_t> own;
  for (std::int64_t k = 0; k < s.final_obs.size(); ++k) {
    const auto i = static_cast<std::size_t>(k);
    if (s.final_obs.b[i] < first || s.final_obs.b[i] >= first + envs) continue;
    own.push_back(k);
    final_obs.t.push_back(s.final_obs.t[i]);
    final_obs.b.push_back(s.final_obs.b[i] - first);
  }
  for (auto& [name, x] : final_obs.observation) {
    auto& rows = x.stacked() ? x.index : x.data;
    rows = rows.index_select(0, at::tensor(own, at::kLong));
  }
  final_obs.mask = select(final_obs.mask, at::tensor(own, at::kLong));
  return part;
}

}  // namespace shoal
