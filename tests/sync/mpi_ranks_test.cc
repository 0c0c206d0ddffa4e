#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "shoal/sync/ranks.h"

namespace shoal {
namespace {

TEST(MpiRanksDeathTest, AnMpiThatDoesNotStartEndsAtTheTimeout) {
  EXPECT_EXIT(
      {
        setenv("SHOAL_MPI_PLUGIN", SHOAL_FAKE_MPI, 1);
        make_mpi_ranks(0, 2, std::chrono::milliseconds(300))->gather({});
      },
      ::testing::ExitedWithCode(1),
      "shoal: MPI has not started within 0.3 s .rank_timeout. in process 0 of 2");
}

}  // namespace
}  // namespace shoal
