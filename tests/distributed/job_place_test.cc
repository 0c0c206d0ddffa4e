#include "shoal/distributed/job_place.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "tests/support/message_of.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

JobPlace place_in(const Environment& environment) {
  return job_place([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "first"},
                               {"MASTER_PORT", "1234"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"TORCHELASTIC_RUN_ID", "mine"}};
const Environment kSrun = {{"SLURM_PROCID", "6"},
                           {"SLURM_STEP_NUM_TASKS", "7"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_NODEID", "3"},
                           {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                           {"SLURM_STEP_NODELIST", "gpu-[07-09,12],other"},
                           {"SLURM_JOB_ID", "1234567"},
                           {"SLURM_STEP_ID", "3"}};

TEST(JobPlaceTest, IsAloneUnlessALauncherSaysSo) {
  // In a batch script Slurm sets the first of these, and has started one process.
  for (const auto& environment :
       {Environment{}, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, {{"RANK", "major"}}}) {
    const auto j = place_in(environment);
    EXPECT_EQ(j.launcher, "");
    EXPECT_EQ(j.place, 0);
    EXPECT_EQ(j.count, 1);
  }
}

TEST(JobPlaceTest, ReadsTorchrun) {
  const auto j = place_in(kTorchrun);
  EXPECT_EQ(j.launcher, "torchrun");
  EXPECT_EQ(j.place, 5);
  EXPECT_EQ(j.count, 8);
  EXPECT_EQ(j.local_place, 1);
  EXPECT_EQ(j.local_count, 4);
  EXPECT_EQ(j.address, "first");
  EXPECT_EQ(j.port, 1234);
  EXPECT_TRUE(j.store_exists);
  EXPECT_EQ(j.job, "mine");

  auto here = kTorchrun;
  here.erase("MASTER_ADDR");
  EXPECT_EQ(place_in(here).address, "") << "there are other machines, and no address is set";
  here["WORLD_SIZE"] = "4";
  here["RANK"] = "1";
  EXPECT_EQ(place_in(here).address, "127.0.0.1");
  here.erase("LOCAL_RANK");
  EXPECT_THAT(message_of([&] { place_in(here); }), HasSubstr("LOCAL_RANK"));
}

TEST(JobPlaceTest, ReadsOpenMpi) {
  Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"OMPI_MCA_ess_base_jobid", "2654208001"}};
  const auto here = place_in(mpirun);
  EXPECT_EQ(here.launcher, "mpirun");
  EXPECT_EQ(here.place, 1);
  EXPECT_EQ(here.local_count, 2);
  EXPECT_EQ(here.address, "127.0.0.1");
  EXPECT_FALSE(here.store_exists);
  auto other = mpirun;
  other["OMPI_MCA_ess_base_jobid"] = "2654273537";
  EXPECT_NE(place_in(other).port, here.port);

  mpirun["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  mpirun["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_EQ(place_in(mpirun).address, "");  // which is refused where they are to meet
  mpirun["MASTER_ADDR"] = "first";
  EXPECT_EQ(place_in(mpirun).address, "first");
}

TEST(JobPlaceTest, ReadsSlurm) {
  const auto j = place_in(kSrun);
  EXPECT_EQ(j.launcher, "srun");
  EXPECT_EQ(j.place, 6);
  EXPECT_EQ(j.count, 7);
  EXPECT_EQ(j.local_place, 0);
  EXPECT_EQ(j.local_count, 1);
  EXPECT_EQ(j.address, "gpu-07");
  EXPECT_EQ(j.job, "1234567.3");
  auto second = kSrun;
  second["SLURM_NODEID"] = "2";
  second["SLURM_STEP_NODELIST"] = "one,two";
  second["SLURM_STEP_ID"] = "4";
  EXPECT_NE(place_in(second).port, j.port) << "steps of a job run beside each other";
  EXPECT_EQ(place_in(second).local_count, 2);
  EXPECT_EQ(place_in(second).address, "one");
}

TEST(JobPlaceTest, RefusesWhatCannotBe) {
  const auto message = [](Environment environment, const char* name, const char* value) {
    environment[name] = value;
    return message_of([&] { place_in(environment); });
  };
  EXPECT_THAT(message(kTorchrun, "RANK", "8"), HasSubstr("process 8 of 8"));
  EXPECT_THAT(message(kTorchrun, "LOCAL_RANK", "4"), HasSubstr("4 of 4 on this host"));
  EXPECT_THAT(message(kTorchrun, "WORLD_SIZE", "8x"),
              HasSubstr("WORLD_SIZE: found '8x', expected a number"));
  EXPECT_THAT(message(kTorchrun, "RANK", "-1"), HasSubstr("RANK: found '-1'"));
  for (const auto* port : {"0", "65536", "99999"})
    EXPECT_THAT(message(kTorchrun, "MASTER_PORT", port), HasSubstr("expected 1 to 65535"));
  for (const auto* port : {"", "-1", "80x", " 80", "99999999999"})
    EXPECT_THAT(message(kTorchrun, "MASTER_PORT", port),
                HasSubstr("MASTER_PORT: found '" + std::string(port) + "', expected a number"));
  EXPECT_THAT(message(kSrun, "SLURM_STEP_TASKS_PER_NODE", "2(x"), HasSubstr("found '2(x'"));
  EXPECT_THAT(message(kSrun, "SLURM_NODEID", "4"), HasSubstr("SLURM_STEP_TASKS_PER_NODE"));
}

}  // namespace
}  // namespace shoal
