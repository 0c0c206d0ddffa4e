#include "src/core/memory_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <string>

#include "shoal/core/arena.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

// A simulated machine: 1000 KiB available, and the cgroups that a test adds.
class MemoryLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto pattern = (fs::temp_directory_path() / "shoal-limits-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    write("proc/meminfo", "MemTotal:  4000 kB\nMemFree:   10 kB\nMemAvailable:   1000 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void group_v2(const std::string& path, const std::string& most, int current) {
    write("sys/fs/cgroup/" + path + "memory.max", most + "\n");
    write("sys/fs/cgroup/" + path + "memory.current", std::to_string(current) + "\n");
  }
  std::size_t available() const { return available_memory_under(root_); }

  fs::path root_;
};

TEST_F(MemoryLimitsTest, WithoutControlGroupsTheMachineDecides) {
  EXPECT_EQ(available(), 1000u * 1024);
}

TEST_F(MemoryLimitsTest, WithoutAnyFileThereIsNoLimit) {
  fs::remove_all(root_ / "proc");
  EXPECT_EQ(available(), std::numeric_limits<std::size_t>::max());
}

TEST_F(MemoryLimitsTest, TheTightestOfTheEnclosingGroupsDecides) {
  write("proc/self/cgroup", "0::/user/job/step\n");
  group_v2("user/job/step/", "max", 50'000);
  group_v2("user/job/", "100000", 60'000);
  group_v2("user/", "900000", 70'000);
  EXPECT_EQ(available(), 40'000u);
  group_v2("user/", "900000", 880'000);
  EXPECT_EQ(available(), 20'000u);
  group_v2("user/job/step/", "50000", 49'000);
  EXPECT_EQ(available(), 1000u);
}

TEST_F(MemoryLimitsTest, AGroupBeyondItsLimitHasNothingLeft) {
  write("proc/self/cgroup", "0::/job\n");
  group_v2("job/", "100", 300);
  EXPECT_EQ(available(), 0u);
}

TEST_F(MemoryLimitsTest, FilePagesThatCanBeDroppedAreNotInUse) {
  write("proc/self/cgroup", "0::/job\n");
  group_v2("job/", "100000", 90'000);
  write("sys/fs/cgroup/job/memory.stat",
        "anon 20000\nfile 70000\nshmem 20000\ninactive_anon 20000\ninactive_file "
        "30000\nactive_file 20000\n");
  EXPECT_EQ(available(), 60'000u);
}

TEST_F(MemoryLimitsTest, InAContainerThatSeesItsHostsPathsTheRootHoldsTheLimit) {
  write("proc/self/cgroup", "0::/../docker/0123abcd\n");
  group_v2("", "70000", 20'000);
  EXPECT_EQ(available(), 50'000u);
}

TEST_F(MemoryLimitsTest, VersionOneIsReadToo) {
  write("proc/self/cgroup", "9:cpu,cpuacct:/\n4:memory:/a/b\n0::/\n");
  const std::string base = "sys/fs/cgroup/memory/a/";
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "800000\n");
  write(base + "memory.limit_in_bytes", "80000\n");
  write(base + "memory.usage_in_bytes", "50000\n");
  EXPECT_EQ(available(), 30'000u);
  write(base + "memory.stat",
        "inactive_file 1\ntotal_inactive_file 4000\ntotal_active_file 1000\n");
  EXPECT_EQ(available(), 35'000u);
}

TEST_F(MemoryLimitsTest, ThisMachineHasSomething) {
  EXPECT_GT(available_memory(), std::size_t{1} << 20);
  EXPECT_LT(available_memory(), std::size_t{1} << 50);
}

}  // namespace
}  // namespace shoal
