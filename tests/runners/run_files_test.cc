#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "runners/checkpoint_format.h"
#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/checkpoint_files.h"
#include "shoal/runners/config.h"
#include "shoal/runners/episode_window.h"
#include "shoal/runners/progress_file.h"
#include "shoal/runners/run_folder.h"
#include "tests/runners/temporary_folder.h"
#include "tests/support/message_of.h"

namespace fs = std::filesystem;

namespace shoal {
namespace {

Checkpoint example() {
  return {.counters = {{"steps", 12}, {"updates", -1}},
          .tensors = {{"agent/w", at::arange(12, at::kFloat).view({3, 4}).t()},
                      {"agent/flag", at::ones({2}, at::kBool)},
                      {"agent/none", at::zeros({0, 5})},
                      {"algo/step", at::full({}, 7, at::kLong)}},
          .algo = "ppo"};
}

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const auto back = read_checkpoint(folder / "c");
  EXPECT_EQ(back.counters.at("steps"), 12);
  EXPECT_EQ(back.counters.at("updates"), -1);
  EXPECT_EQ(back.algo, "ppo");
  for (const auto& [name, tensor] : example().tensors)
    EXPECT_TRUE(at::equal(back.tensors.at(name), tensor)) << name;
  EXPECT_FALSE(fs::exists(folder / "c.new"));
}

TEST(Checkpoint, RestoresTensorsInPlace) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const auto back = read_checkpoint(folder / "c");
  auto weight = at::zeros({4, 3}).requires_grad_();
  restore(back.tensors, "agent/", {{"w", weight}});
  EXPECT_TRUE(at::equal(weight, example().tensors.at("agent/w")));
  EXPECT_THROW(restore(back.tensors, "agent/", {{"other", weight}}), Error);
  EXPECT_THROW(restore(back.tensors, "agent/", {{"w", at::zeros({3, 4})}}), Error);
  EXPECT_THROW(restore(back.tensors, "agent/", {{"w", at::zeros({4, 3}, at::kDouble)}}), Error);
}

TEST(Checkpoint, TruncatedAtAnyByteOrDamagedIsAnError) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const std::string whole = read_file(folder / "c");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::ofstream(folder / "cut", std::ios::binary) << whole.substr(0, n);
    EXPECT_THROW(read_checkpoint(folder / "cut"), Error) << n;
    for (const int flipped : {0x01, 0x10, 0x80}) {
      std::string damaged = whole;
      damaged[n] = static_cast<char>(damaged[n] ^ flipped);
      std::ofstream(folder / "bad", std::ios::binary) << damaged;
      EXPECT_THROW(read_checkpoint(folder / "bad"), Error) << n;
    }
  }
  EXPECT_GT(4 * whole.size(), 1000U) << "cases";
  EXPECT_THROW(read_checkpoint(folder / "missing"), Error);
  EXPECT_THROW(read_checkpoint(folder / ""), Error);
}

// Writes a checkpoint with another header and a valid checksum.
void write_with_header(const fs::path& file, const std::string& header, std::uint64_t elements) {
  const std::uint64_t length = header.size();
  std::string bytes = "SHOALCK1" + std::string(reinterpret_cast<const char*>(&length), 8) + header +
                      std::string(elements, '\1');
  const std::uint32_t crc = checksum(0, bytes);
  write_file(file, bytes + std::string(reinterpret_cast<const char*>(&crc), 4));
}

TEST(Checkpoint, NumbersThatCannotBeAreErrors) {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"counters":{"steps":1.5},"tensors":[]})", "counter 'steps': found 1.5"},
      {R"({"counters":{"steps":18446744073709551615},"tensors":[]})", "found 18446744073709551615"},
      {R"({"counters":{"steps":18446744073709551616},"tensors":[]})", "counter 'steps'"},
      {R"({"counters":{"steps":"1"},"tensors":[]})", "found \"1\""},
      {R"({"counters":[],"tensors":[]})", "header is damaged"},
      {R"({"counters":{}})", "header is damaged"},
      {R"({"counters":{},"tensors":[],"algo":5})", "header is damaged"},
      {R"({"counters":{},"tensors":[{"name":"w","type":"Float","shape":[-1]}]})", "found -1"},
      {R"({"counters":{},"tensors":[{"name":"w","type":"Float","shape":[1099511627776]}]})",
       "truncated: 'w' has 4398046511104 bytes"},
      {R"({"counters":{},"tensors":[{"name":"w","type":"Float","shape":[0,4611686018427387904]}]})",
       "fewer than 2^63 bytes"},
      {R"({"counters":{},"tensors":[{"name":"w","type":"Byte","shape":[4]}]})", "4 bytes follow"},
      {R"({"counters":{},"tensors":[{"name":"w","type":"Byte","shape":[4]},)"
       R"({"name":"w","type":"Byte","shape":[4]}]})",
       "'w' occurs twice"}};
  for (const auto& [header, part] : wrong) {
    write_with_header(folder / "c", header, 8);
    const auto what = message_of([&] { read_checkpoint(folder / "c"); });
    EXPECT_NE(what.find(part), std::string::npos) << what;
  }
  write_with_header(folder / "c",
                    R"({"counters":{},"tensors":[{"name":"w","type":"Byte","shape":[8]}]})", 8);
  EXPECT_EQ(read_checkpoint(folder / "c").tensors.at("w").numel(), 8);
  EXPECT_EQ(read_checkpoint(folder / "c").algo, "") << "versions before did not keep it";
}

// Computing the checksum of the file would take a minute.
TEST(Checkpoint, ASparseFileIsRefusedByItsHeader) {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  fs::resize_file(folder / "c", std::uintmax_t{1} << 36);
  EXPECT_NE(message_of([&] { read_checkpoint(folder / "c"); }).find("bytes follow its tensors"),
            std::string::npos);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

Checkpoint at_step(std::int64_t steps) { return {.counters = {{"steps", steps}}, .tensors = {}}; }

TEST(CheckpointFiles, TheLastOnesAndTheBestStay) {
  const TemporaryFolder folder;
  const CheckpointFiles files(folder / "", 2);
  files.write(at_step(5), 5);
  files.write(at_step(10), 10);
  files.write_best(at_step(10));
  files.write(at_step(1000), 1000);
  EXPECT_EQ(names_in(folder / ""),
            (std::vector<std::string>{"best.ckpt", "checkpoint-000000000010.ckpt",
                                      "checkpoint-000000001000.ckpt", "model.ckpt"}));
  EXPECT_EQ(read_checkpoint(folder / "model.ckpt").counters.at("steps"), 1000);
  EXPECT_EQ(read_checkpoint(folder / "best.ckpt").counters.at("steps"), 10);
  EXPECT_EQ(read_checkpoint(folder / "checkpoint-000000000010.ckpt").counters.at("steps"), 10);
}

TEST(CheckpointFiles, GoingBackRemovesLaterOnes) {
  const TemporaryFolder folder;
  const CheckpointFiles files(folder / "", 3);
  for (const int steps : {5, 10, 1000}) files.write(at_step(steps), steps);
  const std::string oldest = "checkpoint-000000000005.ckpt", next = "checkpoint-000000000010.ckpt";
  files.go_back(kCheckpointFile, 1000);
  EXPECT_EQ(names_in(folder / "").size(), 4);
  files.go_back(next, 10);
  EXPECT_EQ(names_in(folder / ""), (std::vector<std::string>{oldest, next, "model.ckpt"}));
  files.go_back(next, 10);  // two names of one file
  EXPECT_EQ(names_in(folder / ""), (std::vector<std::string>{oldest, next, "model.ckpt"}));
  EXPECT_EQ(read_checkpoint(folder / "model.ckpt").counters.at("steps"), 10);
  files.go_back(oldest, 5);
  EXPECT_EQ(names_in(folder / ""), (std::vector<std::string>{oldest, "model.ckpt"}));
  EXPECT_EQ(read_checkpoint(folder / "model.ckpt").counters.at("steps"), 5);
}

TEST(CheckpointFiles, OneIsKeptAsOneFile) {
  const TemporaryFolder folder;
  const CheckpointFiles files(folder / "", 1);
  files.write(at_step(5), 5);
  files.write(at_step(10), 10);
  EXPECT_EQ(names_in(folder / ""), std::vector<std::string>{"model.ckpt"});
}

TEST(ProgressFile, AColumnThatComesLaterIsEmptyBefore) {
  const TemporaryFolder folder;
  ProgressFile file;
  file.open(folder / "p.csv");
  file.write({1, {{"loss", 0.5}}});
  file.write({2, {{"kl", 7}, {"loss", 1.0 / 3}}});
  file.write({3, {{"kl", 123456789}}});
  file.sync();
  EXPECT_EQ(read_file(folder / "p.csv"), "steps,loss,kl\n1,0.5,\n2,0.333333,7\n3,,123456789\n");
}

TEST(ProgressFile, GoesOnAfterTheRowsThatCount) {
  const TemporaryFolder folder;
  std::ofstream(folder / "p.csv") << "steps,seconds\n512,1\n1024,2\n1536,3\n20";
  ProgressFile file;
  EXPECT_EQ(file.resume(folder / "p.csv", 1024), 2);
  file.write({2048, {{"seconds", 4}, {"kl", 5}}});
  file.sync();
  EXPECT_EQ(read_file(folder / "p.csv"), "steps,seconds,kl\n512,1,\n1024,2,\n2048,4,5\n");
  EXPECT_THROW(ProgressFile().resume(folder / "none.csv", 1), Error);
}

TEST(ProgressFile, DamagedNumbersAreErrorsThatNameTheirPlace) {
  const TemporaryFolder folder;
  const std::string before = "steps,seconds\n512,1\n";
  for (const std::string row : {"1024,x12", "1024,", "1024,-1", "1024,inf", "1024,2s", "x,2",
                                "-1,2", "99999999999999999999,2"}) {
    write_file(folder / "p.csv", before + row + "\n");
    const auto what = message_of([&] { ProgressFile().resume(folder / "p.csv", 2048); });
    EXPECT_NE(what.find("p.csv, line 3: s"), std::string::npos) << row << ": " << what;
    EXPECT_EQ(read_file(folder / "p.csv"), before + row + "\n") << "it stays as it was";
  }
}

TEST(ProgressFile, RowsThatWaitAreThereInTheEnd) {
  const TemporaryFolder folder;
  {
    ProgressFile file;
    file.open(folder / "p.csv");
    for (int i = 1; i <= 3; ++i) file.write({i, {{"loss", i}}});
  }
  EXPECT_EQ(read_file(folder / "p.csv"), "steps,loss\n1,1\n2,2\n3,3\n");
}

TEST(ProgressFile, IsReadByColumn) {
  const TemporaryFolder folder;
  std::ofstream(folder / "p.csv") << "steps,loss,kl\n512,nan,1\n1024,2.5\n1536,,3\n20";
  const auto table = read_progress(folder / "p.csv");
  EXPECT_EQ(table.at("steps"), (std::vector<double>{512, 1024, 1536})) << "without half a row";
  EXPECT_TRUE(std::isnan(table.at("loss")[0]) && std::isnan(table.at("loss")[2]));
  EXPECT_EQ(table.at("loss")[1], 2.5);
  EXPECT_TRUE(std::isnan(table.at("kl")[1]));
  EXPECT_EQ(table.at("kl")[2], 3);
}

TEST(EpisodeWindow, SpreadsAreThoseOfItsLastEpisodes) {
  EpisodeWindow rollout(4);
  EXPECT_TRUE(std::isnan(rollout.scores().median));
  for (const double score : {100.0, 1.0, 8.0, 3.0, 4.0}) rollout.add({{.score = score}});
  const auto s = rollout.scores();
  EXPECT_EQ(s.mean, 4);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.median, 3.5);
  EXPECT_EQ(s.max, 8);
  EXPECT_EQ(s.std, std::sqrt((9.0 + 16 + 1 + 0) / 4));
  rollout.add({{.score = 9}, {.score = 9}});
  EXPECT_EQ(rollout.scores().median, 6.5);
}

TEST(EpisodeWindow, ComesBackFromACheckpoint) {
  EpisodeWindow one(3), other(3);
  one.add({{.score = -4, .info = {7}},
           {.env = 1,
            .number = 2,
            .length = 3,
            .nonzero_rewards = 2,
            .reward = 0.1,
            .discounted_reward = 0.05,
            .score = 5,
            .info = {8}},
           {.score = 6, .info = {9}},
           {.env = 9, .score = 1e300, .info = {-10}}});
  other.restore(one.save());
  for (auto* rollout : {&one, &other}) rollout->add({{.length = 6, .info = {11}}});
  EXPECT_EQ(other.total(), 5);
  EXPECT_EQ(other.mean_score(), one.mean_score());
  EXPECT_EQ(other.lengths().mean, 2);
  EXPECT_EQ(other.discounted_rewards().max, one.discounted_rewards().max);
  EXPECT_EQ(other.mean_nonzero_rewards(), one.mean_nonzero_rewards());
  EXPECT_EQ(other.mean_info(0), one.mean_info(0));
  EpisodeWindow empty(3);
  empty.restore(EpisodeWindow(3).save());
  EXPECT_EQ(empty.total(), 0);
  EXPECT_THROW(other.restore({{"whole", at::zeros({1})}, {"real", at::zeros({1})}}), Error);
  EXPECT_THROW(EpisodeWindow(2).restore(one.save()), Error) << "of three episodes";
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
    const auto read = message_of([&] { read_file(path); });
    EXPECT_EQ(read, "cannot read " + path.string() + ": " + reason);
    const auto made = message_of([&] { const RunFolder run(path); });
    EXPECT_EQ(made, "cannot create the run folder " + path.string() + ": " + reason);
  }
  const auto config = message_of([&] { preset_or_file(long_name); });
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

TEST(RunFolder, IsForOneRunAtATime) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "run");  // empty, so that another run may take it
  {
    const RunFolder run(folder / "run");
    const auto taken = message_of([&] { const RunFolder other(folder / "run"); });
    EXPECT_NE(taken.find("in use by another run"), std::string::npos) << taken;
    EXPECT_THROW(RunFolder(folder / "run", RunFolder::Kind::kExisting), Error);
  }
  const RunFolder again(folder / "run", RunFolder::Kind::kExisting);
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
