#include "runners/fix_sampler.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>

#include "shoal/core/text.h"
#include "shoal/runners/device.h"
#include "shoal/samplers/choose_sampler.h"

namespace shoal {
namespace {

std::string lines_of(const SamplerChoice& choice) {
  if (choice.measured.empty())
    return choice.reason.empty()
               ? ""
               : fmt::format("samplers are not measured: {}\n", one_line(choice.reason));
  std::string text = "samplers, in steps/s:\n";
  for (const auto& [name, rate] : choice.measured)
    text += fmt::format("  {:<34} {:>10.0f}{}\n", name, rate,
                        &name == &choice.measured[0].sampler ? "  chosen" : "");
  return text;
}

}  // namespace

std::string fix_sampler(Config& config, const EnvFactory& make_env, Agent& agent,
                        std::int64_t together, ProcessGroup& ranks) {
  const auto sum = [&](std::vector<double>& numbers) {
    ranks.sum(at::from_blob(numbers.data(), {std::ssize(numbers)}, at::kDouble));
  };
  const auto choice =
      choose_sampler(make_env, agent, training_sampler(config),
                     {.measure = !config.asynchronous && parse_device(config.device).is_cpu(),
                      .steps = config.steps,
                      .threads = tensor_threads(config),
                      .together = std::max<std::int64_t>(together, 1),
                      .ranks = ranks.count(),
                      .sum = sum});
  config.sampler.kind = choice.options.kind;
  config.sampler.workers = choice.options.workers;
  config.sampler.groups = choice.options.groups;
  return lines_of(choice);
}

}  // namespace shoal
