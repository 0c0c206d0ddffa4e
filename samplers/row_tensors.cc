#include "samplers/row_tensors.h"

#include <ATen/ATen.h>

namespace shoal {

void RowTensors::Mirror::copy_rows(std::int64_t from, std::int64_t n) const {
  if (!host.is_same(device))
    device.narrow(0, from, n).copy_(host.narrow(0, from, n), /*non_blocking=*/true);
}

void RowTensors::Mirror::copy_part(std::int64_t row, const Range& envs) const {
  if (host.is_same(device)) return;
  device[row]
      .narrow(0, envs.first, envs.size())
      .copy_(host[row].narrow(0, envs.first, envs.size()), /*non_blocking=*/true);
}

RowTensors::RowTensors(const SharedRows& s, at::Device on) : shared(&s), device(on) {
  auto mirror = [&](const Arena::Field& field) -> Mirror {
    auto host = view(*s.arena, field);
    return {host, device.is_cpu() ? host : host.to(device)};
  };
  auto mirrors = [&](const Named<Arena::Field>& fields) {
    Named<Mirror> out;
    for (const auto& [name, field] : fields) out.add(name, mirror(field));
    return out;
  };
  const auto& rows = s.rows;
  observation = mirrors(rows.observation);
  action = mirrors(rows.action);
  mask = mirrors(rows.mask);
  env_info = mirrors(rows.env_info);
  agent_info = mirrors(rows.agent_info);
  reward = mirror(rows.reward);
  terminated = mirror(rows.terminated);
  truncated = mirror(rows.truncated);
  first = mirror(rows.first);
  valid = mirror(rows.valid);
  for (const int i : {0, 1}) state[i] = mirrors(s.state[i]);
  for (const auto& [name, spec] : rows.spec().observation) {
    if (spec.stack == 1) continue;
    auto host = at::full({s.horizon + 1, rows.envs(), spec.stack}, -1, at::kLong);
    frame_index.add(name, {host, device.is_cpu() ? host : host.to(device)});
  }
}

// Going back in time until the episode's first one.
void RowTensors::stack_frames(std::int64_t t, const Range& envs) {
  const auto B = shared->rows.envs();
  const auto* starts = first.host.const_data_ptr<bool>();
  for (auto& [name, m] : frame_index) {
    const auto stack = m.host.size(2);
    auto* index = m.host.data_ptr<std::int64_t>() + (t * B + envs.first) * stack;
    for (auto b = envs.first; b < envs.last; ++b, index += stack) {
      auto frame = (shared->history + t) * B + b;
      bool blank = shared->waits(shared->history + t, b);
      for (auto s = stack - 1; s >= 0; --s, frame -= B) {
        index[s] = blank ? -1 : frame;
        blank = blank || starts[frame];
      }
    }
  }
}

}  // namespace shoal
