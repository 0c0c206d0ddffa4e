#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "shoal/core/error.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/config.h"
#include "shoal/runners/run_folder.h"
#include "tests/runners/temporary_folder.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

Checkpoint example() {
  return {.counters = {{"steps", 12}, {"updates", -1}},
          .tensors = {{"agent/w", at::arange(12, at::kFloat).view({3, 4}).t()},
                      {"agent/flag", at::ones({2}, at::kBool)},
                      {"agent/none", at::zeros({0, 5})},
                      {"algo/step", at::full({}, 7, at::kLong)}}};
}

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const auto back = read_checkpoint(folder / "c");
  EXPECT_EQ(back.counters.at("steps"), 12);
  EXPECT_EQ(back.counters.at("updates"), -1);
  for (const auto& [name, tensor] : example().tensors)
    EXPECT_TRUE(at::equal(back.tensors.at(name), tensor)) << name;
  EXPECT_FALSE(fs::exists(folder / "c.new"));
}

TEST(Checkpoint, RestoresTensorsInPlace) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const auto back = read_checkpoint(folder / "c");
  auto weight = at::zeros({4, 3}).requires_grad_();
  back.restore("agent/", {{"w", weight}});
  EXPECT_TRUE(at::equal(weight, example().tensors.at("agent/w")));
  EXPECT_THROW(back.restore("agent/", {{"other", weight}}), Error);
  EXPECT_THROW(back.restore("agent/", {{"w", at::zeros({3, 4})}}), Error);
  EXPECT_THROW(back.restore("agent/", {{"w", at::zeros({4, 3}, at::kDouble)}}), Error);
}

TEST(Checkpoint, TruncatedAtAnyByteOrDamagedIsAnError) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const std::string whole = read_file(folder / "c");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::ofstream(folder / "cut", std::ios::binary) << whole.substr(0, n);
    EXPECT_THROW(read_checkpoint(folder / "cut"), Error) << n;
    std::string damaged = whole;
    damaged[n] = static_cast<char>(damaged[n] ^ 0x10);
    std::ofstream(folder / "bad", std::ios::binary) << damaged;
    EXPECT_THROW(read_checkpoint(folder / "bad"), Error) << n;
  }
  EXPECT_THROW(read_checkpoint(folder / "missing"), Error);
  EXPECT_THROW(read_checkpoint(folder / ""), Error);
}

TEST(WriteFile, LeavesNothingBehindWhenItFails) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_file(folder / "no/such/folder", "text"), Error);
  fs::create_directory(folder / "taken");
  EXPECT_THROW(write_file(folder / "taken", "text"), Error);
  EXPECT_FALSE(fs::exists(folder / "taken.new"));
}

TEST(Files, NamesTheSystemRefusesAreErrorsWithItsReason) {
  const TemporaryFolder folder;
  fs::create_symlink("loop", folder / "loop");
  const std::string long_name(300, 'x');
  const std::pair<fs::path, std::string> refused[] = {
      {folder / long_name, "File name too long"},
      {folder / "loop/below", "Too many levels of symbolic links"}};
  for (const auto& [name, reason] : refused) {
    const fs::path& path = name;  // clang captures structured bindings since 16 only
    const auto read = message_of<Error>([&] { read_file(path); });
    EXPECT_EQ(read, "cannot read " + path.string() + ": " + reason);
    const auto made = message_of<Error>([&] { const RunFolder run(path); });
    EXPECT_EQ(made, "the run folder " + path.string() + " cannot be made: " + reason);
  }
  const auto config = message_of<Error>([&] { preset_or_file(long_name); });
  EXPECT_EQ(config, "cannot read " + long_name + ": File name too long");
  EXPECT_NO_THROW(default_run_folder(long_name, 1));
}

TEST(RunFolder, IsUndoneUnlessKept) {
  const TemporaryFolder folder;
  {
    const RunFolder run(folder / "a/b/c/");
    EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  }
  EXPECT_FALSE(fs::exists(folder / "a"));
  {
    RunFolder run(folder / "a/b");
    run.keep();
  }
  EXPECT_TRUE(fs::is_directory(folder / "a/b"));
  { const RunFolder run(folder / "a/b"); }
  EXPECT_TRUE(fs::is_directory(folder / "a/b"));
}

TEST(RunFolder, RefusesWhatIsTaken) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(RunFolder(folder / "file"), Error);
  EXPECT_THROW(RunFolder(folder / "file/below"), Error);
  EXPECT_THROW(RunFolder(folder / ""), Error);  // holds "file"
  EXPECT_THROW(RunFolder("/proc/nothing/here"), Error);
  EXPECT_TRUE(fs::exists(folder / "file"));
}

}  // namespace
}  // namespace shoal
