#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/agents/pg/categorical_evaluation.h"
#include "src/agents/pg/head.h"
#include "src/compute/accelerator.h"

namespace shoal {
namespace {

// Finite, so that its product with a probability of zero is zero.
constexpr float kForbidden = -1e9F;

// The first choice whose cumulative probability exceeds `u`; the most likely one if greedy.
std::int64_t choose(const float* weight, std::int64_t n, float total, float u, bool greedy) {
  if (greedy) return std::max_element(weight, weight + n) - weight;
  const float target = u * total;
  float sum = 0;
  std::int64_t last = 0;
  for (std::int64_t a = 0; a < n; ++a) {
    if (weight[a] <= 0) continue;  // illegal, or the probability underflows
    last = a;
    sum += weight[a];
    if (sum > target) break;
  }
  return last;
}

struct Chosen {
  std::int64_t action;
  float log_prob;
};

Chosen choose_from_logits(const float* logits, std::int64_t n, float u, bool greedy) {
  const float top = *std::max_element(logits, logits + n);
  float total = 0;
  thread_local std::vector<float> weight;
  weight.resize(static_cast<std::size_t>(n));
  for (std::int64_t a = 0; a < n; ++a)
    total += weight[static_cast<std::size_t>(a)] = std::exp(logits[a] - top);
  const auto action = choose(weight.data(), n, total, u, greedy);
  return {action, logits[action] - top - std::log(total)};
}

class CategoricalHead : public Head {
 public:
  CategoricalHead(std::vector<std::int64_t> choices, Stored stored)
      : choices_(std::move(choices)),
        stored_(stored),
        size_(std::accumulate(choices_.begin(), choices_.end(), std::int64_t{0})) {}

  std::int64_t size() const override { return size_; }
  std::int64_t noise_size() const override { return static_cast<std::int64_t>(choices_.size()); }

  void act(const HeadIn& in, at::Tensor& action, at::Tensor&, at::Tensor& log_prob) override {
    if (!in.by_rows) {
      if (const auto* on = accelerator(in.policy.device()); on != nullptr && in.noise.on_device())
        choose_on(*on, in, action, log_prob);
      else
        choose_with_tensors(in, action, log_prob);
    } else if (stored_ == Stored::kBits) {
      choose_by_rows<bool>(in, action, log_prob);
    } else {
      choose_by_rows<std::int64_t>(in, action, log_prob);
    }
  }

  HeadOut outputs(const at::Tensor& policy, const at::Tensor& mask,
                  const at::Tensor& noise) const override {
    const auto logits = masked(policy, mask);
    std::vector<at::Tensor> likely, drawn, log_prob;
    for_each_part([&](std::size_t part, std::int64_t from, std::int64_t n) {
      const auto own = logits.narrow(1, from, n);
      likely.push_back(own.argmax(1));
      if (!noise.defined()) return;
      const auto log_probs = at::log_softmax(own, 1);
      drawn.push_back(draw(log_probs, noise.narrow(1, static_cast<std::int64_t>(part), 1)));
      log_prob.push_back(log_probs.gather(1, drawn.back().unsqueeze(1)).squeeze(1));
    });
    HeadOut out{.action = stored(likely), .distribution = {{"logits", logits}}};
    if (!noise.defined()) return out;
    out.sample = stored(drawn);
    out.log_prob = at::stack(log_prob, 1).sum(1);
    return out;
  }

  HeadEvaluation evaluate(const HeadEvaluateIn& in) override {
    const auto logits = masked(in.policy, in.mask);
    HeadEvaluation sum;
    for_each_part([&](std::size_t part, std::int64_t from, std::int64_t n) {
      const auto [log_prob, entropy] = evaluate_categorical(
          size_ == n ? logits : logits.narrow(1, from, n), of_part(in.action, part).to(at::kLong));
      sum.log_prob = part == 0 ? log_prob : sum.log_prob + log_prob;
      sum.entropy = part == 0 ? entropy : sum.entropy + entropy;
    });
    return sum;
  }

 private:
  template <class Visit>  // visit(part, its first logit, its number of choices)
  void for_each_part(Visit&& visit) const {
    for (std::size_t part = 0, from = 0; part < choices_.size(); ++part) {
      const auto n = choices_[part];
      visit(part, static_cast<std::int64_t>(from), n);
      from += static_cast<std::size_t>(n);
    }
  }

  // One tensor of the choices of all parts.
  at::Tensor stored(const std::vector<at::Tensor>& chosen) const {
    if (stored_ == Stored::kNumber) return chosen[0];
    const auto all = at::stack(chosen, 1);
    return stored_ == Stored::kBits ? all.to(at::kBool) : all;
  }

  at::Tensor of_part(const at::Tensor& action, std::size_t part) const {
    return stored_ == Stored::kNumber ? action : action.select(1, static_cast<std::int64_t>(part));
  }

  static at::Tensor masked(const at::Tensor& logits, const at::Tensor& mask) {
    return mask.defined() ? logits.masked_fill(mask.logical_not(), kForbidden) : logits;
  }

  template <class T>
  void choose_by_rows(const HeadIn& in, at::Tensor& action, at::Tensor& log_prob) const {
    const auto rows = in.policy.size(0), stride = in.policy.stride(0);
    auto* logits = in.policy.data_ptr<float>();
    auto* to = action.data_ptr<T>();
    auto* sum = log_prob.data_ptr<float>();
    const bool* mask = in.mask.defined() ? in.mask.const_data_ptr<bool>() : nullptr;
    for (std::int64_t i = 0; i < rows; ++i, logits += stride) {
      for (std::int64_t a = 0; mask && a < size_; ++a)
        if (!mask[i * size_ + a]) logits[a] = kForbidden;
      for_each_part([&](std::size_t part, std::int64_t from, std::int64_t n) {
        const auto number = in.first_number + static_cast<std::int64_t>(part);
        const auto chosen = choose_from_logits(
            logits + from, n, in.greedy ? 0 : in.noise.uniform(i, number), in.greedy);
        *to++ = static_cast<T>(chosen.action);
        sum[i] += chosen.log_prob;
      });
    }
  }

  void choose_on(const Accelerator& on, const HeadIn& in, at::Tensor& action,
                 at::Tensor& log_prob) {
    const auto logits = in.policy.to(at::kFloat);
    const auto mask = in.mask.defined() ? in.mask.contiguous() : at::Tensor();
    if (!choices_there_.defined() || choices_there_.device() != logits.device())
      choices_there_ = at::tensor(choices_, at::kLong).to(logits.device());
    const bool bits = stored_ == Stored::kBits;
    const c10::DeviceGuard guard(logits.device());
    require_started("choose_categorical",
                    on.kernels().choose_categorical(
                        {.logits = logits.const_data_ptr<float>(),
                         .stride = logits.stride(0),
                         .choices = choices_there_.const_data_ptr<std::int64_t>(),
                         .mask = mask.defined() ? mask.const_data_ptr<bool>() : nullptr,
                         .seed = in.noise.key().seed,
                         .env_tick = in.noise.key().env_tick.const_data_ptr<std::int64_t>(),
                         .first_number = in.first_number,
                         .action = bits ? nullptr : action.data_ptr<std::int64_t>(),
                         .bit = bits ? action.data_ptr<bool>() : nullptr,
                         .log_prob = log_prob.data_ptr<float>(),
                         .N = logits.size(0),
                         .parts = noise_size(),
                         .greedy = in.greedy},
                        on.stream()));
  }

  void choose_with_tensors(const HeadIn& in, at::Tensor& action, at::Tensor& log_prob) const {
    const auto logits = masked(in.policy, in.mask);
    const auto noise =
        in.noise.uniform({logits.size(0), in.first_number, noise_size()}, logits.device());
    for_each_part([&](std::size_t part, std::int64_t from, std::int64_t n) {
      const auto log_probs = at::log_softmax(logits.narrow(1, from, n), 1);
      const auto chosen =
          in.greedy ? log_probs.argmax(1)
                    : draw(log_probs, noise.narrow(1, static_cast<std::int64_t>(part), 1));
      of_part(action, part).copy_(chosen);
      log_prob.add_(log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1));
    });
  }

  // Scales u by the rounded sum of the probabilities, so that an action of probability 0 is never
  // drawn.
  static at::Tensor draw(const at::Tensor& log_probs, const at::Tensor& u) {
    const auto cumulated = log_probs.exp().cumsum(1);
    return cumulated.le(u * cumulated.narrow(1, cumulated.size(1) - 1, 1)).sum(1);
  }

  std::vector<std::int64_t> choices_;
  Stored stored_;
  std::int64_t size_;
  at::Tensor choices_there_;  // choices_ on the GPU
};

}  // namespace

std::shared_ptr<Head> make_categorical_head(std::vector<std::int64_t> choices, Stored stored) {
  return std::make_shared<CategoricalHead>(std::move(choices), stored);
}

}  // namespace shoal
