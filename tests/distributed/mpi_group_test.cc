#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "shoal/core/error.h"
#include "shoal/distributed/process_group.h"

namespace shoal {
namespace {

TEST(MpiGroupDeathTest, AnMpiThatDoesNotStartEndsAtTheTimeout) {
  EXPECT_EXIT(
      {
        setenv("SHOAL_MPI_PLUGIN", SHOAL_FAKE_MPI, 1);
        make_mpi_group(0, 2, std::chrono::milliseconds(300))->gather({});
      },
      ::testing::ExitedWithCode(1),
      "shoal: MPI has not started within 0.3 s .rank_timeout. in process 0 of 2");
}

std::unique_ptr<ProcessGroup> started(int rank) {
  setenv("SHOAL_MPI_PLUGIN", SHOAL_FAKE_MPI, 1);
  setenv("SHOAL_FAKE_MPI_STARTS", "1", 1);
  auto ranks = make_mpi_group(rank, 2, std::chrono::milliseconds(300));
  ranks->gather({});
  return ranks;
}

TEST(MpiGroupDeathTest, AnMpiThatDoesNotEndEndsAtTheTimeout) {
  EXPECT_EXIT(
      started(0), ::testing::ExitedWithCode(1),
      "shoal: MPI has not ended within 0.3 s .rank_timeout.; another process may have failed");
}

TEST(MpiGroupDeathTest, AnotherPlaceThanTheLaunchersIsAnError) {
  EXPECT_EXIT(
      {
        try {
          started(1);
        } catch (const Error& e) {
          fmt::print(stderr, "{}\n", e.what());
          _exit(1);
        }
      },
      ::testing::ExitedWithCode(1),
      "MPI reports process 0 of 2, the launcher process 1 of 2; start it with mpirun");
}

}  // namespace
}  // namespace shoal
