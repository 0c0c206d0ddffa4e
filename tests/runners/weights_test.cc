#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "shoal/agents/q_agent.h"
#include "shoal/core/error.h"
#include "shoal/models/actor_critic.h"
#include "shoal/runners/config.h"
#include "shoal/runners/export.h"
#include "shoal/runners/files.h"
#include "tests/runners/temporary_folder.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

class WeightsTest : public ::testing::Test {
 protected:
  static EnvSpec spec() {
    return {
        .id = "Three", .observation = ArraySpec{.shape = {3}}, .action = ActionSpec::discrete(2)};
  }
  static std::unique_ptr<Agent> agent(std::uint64_t seed) {
    return make_actor_critic(spec(), {.hidden = {4}}, {.normalize_observation = true}, seed);
  }

  WeightsTest() {
    config_.seed = 7;
    export_weights(*agent(1), config_, file_);
    bytes_ = read_file(file_, 1 << 20);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    begin_ = sizeof length + length;
    header_ = nlohmann::json::parse(bytes_.substr(sizeof length, length));
  }

  // The message with which the file is refused once it holds these bytes.
  std::string refused(const std::string& bytes) {
    write_file(file_, bytes);
    return message_of([&] { import_weights(*agent(2), file_); });
  }
  std::string with_header(const std::string& text) const {
    const std::uint64_t length = text.size();
    std::string bytes(sizeof length, ' ');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes + text + bytes_.substr(begin_);
  }
  std::string with(const std::string& tensor, const std::string& key,
                   const nlohmann::json& value) const {
    auto header = header_;
    header[tensor][key] = value;
    return with_header(header.dump());
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "policy.safetensors";
  Config config_ = preset("cartpole-ppo");
  std::string bytes_;
  std::uint64_t begin_ = 0;
  nlohmann::json header_;
};

TEST_F(WeightsTest, AnAgentGetsTheWeightsOfAnother) {
  const auto from = agent(1), to = agent(2);
  import_weights(*to, file_);
  const auto expected = from->parameters();
  for (const auto& [name, tensor] : to->parameters())
    EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
  EXPECT_EQ(weights_config(file_).seed, 7U);
  EXPECT_EQ(write_config(weights_config(file_)), write_config(config_));
}

TEST_F(WeightsTest, NetworksMayBeRoundedToHalfPrecision) {
  const auto from = agent(1), to = agent(2);
  const auto expected = from->parameters();
  export_weights(*from, config_, file_, /*half=*/true);
  EXPECT_LT(std::filesystem::file_size(file_) + 40, bytes_.size());
  import_weights(*to, file_);
  int rounded = 0;
  for (const auto& [name, tensor] : to->parameters()) {
    const auto& exact = expected.at(name);
    const bool is_network = !name.starts_with("normalizer/");
    EXPECT_TRUE(tensor.equal(is_network ? exact.to(at::kHalf).to(at::kFloat) : exact)) << name;
    rounded += !tensor.equal(exact);
  }
  EXPECT_GT(rounded, 0);
  at::NoGradGuard no_grad;
  expected.at("policy0.weight").fill_(65'600);
  EXPECT_NE(message_of([&] { export_weights(*from, config_, file_, true); }).find("policy0.weight"),
            std::string::npos);
}

TEST_F(WeightsTest, TargetNetworksBeginAsCopies) {
  const auto from = make_q_agent(spec(), {.hidden = {4}}, {}, 1),
             to = make_q_agent(spec(), {.hidden = {4}}, {}, 2);
  {
    at::NoGradGuard no_grad;
    for (auto& parameter : from->learnable()) parameter.add_(1);
  }
  export_weights(*from, config_, file_);
  EXPECT_EQ(read_file(file_, 1 << 20).find("target/"), std::string::npos);
  import_weights(*to, file_);
  const auto expected = from->parameters();
  int targets = 0;
  for (const auto& [name, tensor] : to->parameters()) {
    const bool is_target = name.starts_with("target/");
    EXPECT_TRUE(tensor.equal(expected.at(is_target ? name.substr(7) : name))) << name;
    targets += is_target;
  }
  EXPECT_GT(targets, 0);
}

TEST_F(WeightsTest, RefusesATruncatedFile) {
  EXPECT_NE(refused("").find("policy.safetensors cannot be used: it is not in the format"),
            std::string::npos);
  for (const std::uint64_t size : {std::uint64_t{7}, std::uint64_t{8}, std::uint64_t{9}, begin_ - 1,
                                   begin_, begin_ + 1, bytes_.size() - 1})
    EXPECT_NE(refused(bytes_.substr(0, size)), "") << size;
  write_file(file_, bytes_);
  import_weights(*agent(2), file_);
}

TEST_F(WeightsTest, RefusesTensorsThatDoNotFit) {
  const std::string name = "policy0.weight";
  ASSERT_TRUE(header_.contains(name));
  EXPECT_NE(refused(with(name, "shape", {3, 4})).find("expected shape [4,3]"), std::string::npos);
  EXPECT_NE(refused(with(name, "dtype", "F64")).find("expected dtype \"F32\""), std::string::npos);
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const nlohmann::json& offsets :
       {nlohmann::json{0, 47}, nlohmann::json{48, 0}, nlohmann::json{most - 48, most},
        nlohmann::json{most, most}, nlohmann::json{-48, 0}, nlohmann::json{0}, nlohmann::json("0"),
        nlohmann::json{0.0, 48.0}})
    EXPECT_NE(refused(with(name, "data_offsets", offsets)).find("'" + name), std::string::npos)
        << offsets.dump();
  auto lacking = header_;
  lacking.erase(name);
  EXPECT_NE(refused(with_header(lacking.dump())).find("it lacks 'policy0.weight'"),
            std::string::npos);
  auto more = header_;
  more["odd"] = more[name];
  EXPECT_NE(refused(with_header(more.dump())).find("it holds 'odd'"), std::string::npos);
  auto odd = header_;
  odd[name] = 3;
  EXPECT_NE(refused(with_header(odd.dump())).find("found 3"), std::string::npos);
}

TEST_F(WeightsTest, RefusesADamagedHeader) {
  for (const std::string text : {"", "{", "3", "[]", "{\"a\":", "\xff\xfe"})
    EXPECT_NE(refused(with_header(text)), "") << text;
  EXPECT_NE(refused(with_header(std::string(100'000, '['))).find("damaged"), std::string::npos);
  auto anonymous = header_;
  anonymous.erase("__metadata__");
  write_file(file_, with_header(anonymous.dump()));
  EXPECT_NE(message_of([&] { weights_config(file_); }).find("it holds no settings"),
            std::string::npos);
  import_weights(*agent(2), file_);  // needs none
}

TEST_F(WeightsTest, NumbersAreFinite) {
  auto bytes = bytes_;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto at = header_["policy0.weight"]["data_offsets"][0].get<std::uint64_t>();
  std::memcpy(bytes.data() + begin_ + at, &nan, sizeof nan);
  EXPECT_NE(refused(bytes).find("policy0.weight"), std::string::npos);
}

TEST_F(WeightsTest, AFileThatIsMissingIsNamed) {
  EXPECT_NE(message_of([&] { weights_config(folder_ / "none.safetensors"); }).find("none.safet"),
            std::string::npos);
  EXPECT_NE(message_of([&] { import_weights(*agent(1), folder_ / "."); }), "");
}

}  // namespace
}  // namespace shoal
