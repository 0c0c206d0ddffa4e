#include "samplers/filler.h"

#include "samplers/acting_workers.h"
#include "samplers/dynamic_batching.h"
#include "samplers/lockstep.h"

namespace shoal {

std::size_t filler_bytes(const SamplerOptions& o, Agent& agent) {
  if (o.kind == SamplerKind::kSerial) return 0;
  if (o.kind == SamplerKind::kParallelCpu) return ActingWorkers::bytes(o, agent);
  return o.dynamic_batch > 0 ? DynamicBatching::bytes(o) : ParallelStepper::bytes(o);
}

std::unique_ptr<Filler> make_filler(const SharedRollouts& rollouts, const SamplerContext& context,
                                    Agent& agent, std::byte* memory) {
  const auto& o = context.options;
  if (o.kind == SamplerKind::kSerial)
    return std::make_unique<Lockstep>(std::make_unique<SerialStepper>(rollouts, context), o);
  if (o.kind == SamplerKind::kParallelCpu)
    return std::make_unique<ActingWorkers>(*rollouts[0], context, agent, memory);
  if (o.dynamic_batch > 0) return std::make_unique<DynamicBatching>(rollouts, context, memory);
  return std::make_unique<Lockstep>(std::make_unique<ParallelStepper>(rollouts, context, memory),
                                    o);
}

}  // namespace shoal
