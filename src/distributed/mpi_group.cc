#include <fmt/format.h>

#include <array>
#include <exception>
#include <utility>

#include "mpi_plugin.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/distributed/process_group.h"
#include "src/core/plugin.h"
#include "src/distributed/ring_group.h"

namespace shoal {
namespace {

const Plugin& mpi_plugin() {
  static const Plugin kPlugin{.name = "MPI",
                              .file = "shoal_mpi.so",
                              .variable = "SHOAL_MPI_PLUGIN",
                              .option = "SHOAL_WITH_MPI",
                              .symbol = SHOAL_MPI_GET_API,
                              .version = SHOAL_MPI_VERSION};
  return kPlugin;
}

class MpiRing : public Ring {
 public:
  MpiRing(const shoal_mpi_api& mpi, int rank, int count, std::chrono::milliseconds timeout)
      : Ring(rank, count, timeout), mpi_(mpi) {
    int place = 0, places = 0;
    const CallTimeout in_time(
        timeout, fmt::format("MPI has not started within {:g} s (rank_timeout) in process {} of "
                             "{}; start all of them, with the mpirun of the same MPI",
                             std::chrono::duration<double>(timeout).count(), rank, count));
    if (mpi_.start(&place, &places, failure_.data(), failure_.size()) != SHOAL_MPI_OK)
      fail(rank, fmt::format("cannot initialise MPI: {}", failure_.data()));
    require(place == rank && places == count,
            "MPI reports process {} of {}, the launcher process {} of {}; start it with mpirun, or "
            "srun --mpi=pmix",
            place, places, rank, count);
  }
  // MPI_Finalize waits for the other processes. A failed process exits without it, and the launcher
  // ends the others.
  ~MpiRing() override {
    if (failed_ || std::uncaught_exceptions() > 0) return;
    const CallTimeout in_time(
        timeout(),
        fmt::format("MPI has not ended within {:g} s (rank_timeout); another process may have "
                    "failed",
                    std::chrono::duration<double>(timeout()).count()));
    mpi_.finish();
  }
  MpiRing(const MpiRing&) = delete;
  MpiRing& operator=(const MpiRing&) = delete;

  void pass(const Act& act, std::span<const std::byte> out, std::span<std::byte> in) override {
    Act theirs;
    failed_ = true;
    const BlockingCall call(BlockingCall::kRanks);
    switch (mpi_.pass(&act, &theirs, sizeof act, out.data(), out.size(), in.data(), in.size(),
                      std::chrono::duration<double>(timeout()).count(), failure_.data(),
                      failure_.size())) {
      case SHOAL_MPI_OK:
        failed_ = false;
        return;
      case SHOAL_MPI_DIFFERENT:
        fail_for_difference(theirs, act);
      case SHOAL_MPI_NOT_RECEIVED:
        fail_for_lateness(place_before());
      case SHOAL_MPI_NOT_SENT:
        fail_for_lateness(next_place());
      case SHOAL_MPI_FAILED:
        break;
    }
    fail(place_before(), fmt::format("or the next one is unreachable: {}", failure_.data()));
  }

 private:
  const shoal_mpi_api& mpi_;
  std::array<char, 512> failure_{};
  bool failed_ = false;
};

}  // namespace

bool has_mpi() { return mpi_plugin().exists(); }

std::unique_ptr<ProcessGroup> make_mpi_group(int rank, int count,
                                             std::chrono::milliseconds timeout) {
  const auto& mpi = mpi_plugin().load<shoal_mpi_api>();
  return std::make_unique<RingGroup>(
      rank, count, [=, &mpi] { return std::make_unique<MpiRing>(mpi, rank, count, timeout); });
}

}  // namespace shoal
