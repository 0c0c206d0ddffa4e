#include "src/envs/child.h"

#include "shoal/core/arena.h"
#include "shoal/ipc/step_barrier.h"

namespace shoal {

void run_in_child(const std::function<void(WorkerStatus)>& act, const WorkerGroupOptions& limits,
                  const std::function<void()>& meanwhile) {
  constexpr std::chrono::milliseconds kPatience{100};  // between two checks for its death
  Arena::Plan plan;
  const auto at = plan.add_bytes(StepBarrier::bytes(1));
  const Arena arena(plan);
  StepBarrier barrier(arena.data(at), 1, /*spin=*/0);
  WorkerGroup child(
      1,
      [&](int, WorkerStatus status) {
        act(status);
        status.leave();
        barrier.arrive(0);
        while (!barrier.wait_release(0, kPatience)) {  // keep the child alive: its end would count
                                                       // as a death
        }
      },
      limits);
  while (!barrier.wait(0, kPatience)) {
    child.check(0);
    if (meanwhile) meanwhile();
  }
}

}  // namespace shoal
