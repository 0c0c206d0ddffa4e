#include "shoal/runners/config.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "shoal/algos/ppo.h"
#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/checkpoint.h"
#include "tests/runners/temporary_folder.h"
#include "tests/support/message_of.h"

namespace shoal {
namespace {

using std::chrono::milliseconds;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string refusal(const std::string& key, const std::string& value) {
  return message_of([&] {
    Config config;
    set(config, key, value);
  });
}

// Another value of the same type, so that a key that is not read or written is found.
std::string changed(const SettingDoc& setting) {
  if (setting.key == "sampler.kind") return "serial";
  if (setting.key.ends_with("precision")) return "bf16";
  if (setting.key == "sampler.on_death") return "restart";
  if (setting.key == "async.stale") return "drop";
  if (setting.key == "rank_backend") return "tcp";
  if (setting.key.ends_with(".optimizer")) return "rmsprop";
  if (setting.key == "ppo.normalize_advantage") return "rollout";
  if (setting.key == "model.memory") return "gru";
  if (setting.key == "model.cnn") return "impala";
  if (setting.key == "model.initial_weights") return "uniform";
  if (setting.key == "atari.emulator") return "ale";
  for (const char* words : {"env.observation", "env.info", "gymnasium.wrappers"})
    if (setting.key == words) return R"(["a \"word\" \\ ", "another"])";
  if (setting.key == "dqn.returns") return "quantile";
  if (setting.key == "base") return "pong-ppo";
  if (setting.value == "true") return "false";
  if (setting.value == "false") return "true";
  if (setting.value.starts_with('[')) return "[7, 8, 9]";
  if (contains(setting.value, ".") || setting.key == "stop_return") return "0.1234567890123";
  if (setting.value.starts_with('"')) return "another \"word\"";
  return "12345";
}

TEST(Config, EveryKeyIsWrittenAndReadBack) {
  const TemporaryFolder folder;
  Config config;
  for (const auto& setting : setting_docs()) set(config, setting.key, changed(setting));
  config.sampler.step_limit = milliseconds(1500);
  write_file(folder / "a.toml", write_config(config));
  const Config back = read_config(folder / "a.toml");
  EXPECT_EQ(write_config(back), write_config(config));
  const auto defaults = setting_docs(), now = setting_docs(back);
  for (std::size_t i = 0; i < now.size(); ++i)
    EXPECT_NE(now[i].value, defaults[i].value) << now[i].key;
}

TEST(Config, TextThatIsNotUtf8IsRefusedNotChanged) {
  for (const char* value : {"runs/a\xc3", "\xff", "\"\xed\xa0\x80"})
    EXPECT_TRUE(contains(refusal("init_from", value), "init_from: found")) << value;
  Config config;
  set(config, "init_from", "runs/\xc3\xa4 \"1\"\n");
  EXPECT_EQ(parse_config(write_config(config), "a.toml").init_from, "runs/\xc3\xa4 \"1\"\n");
}

TEST(Config, TimesAreReadBackToTheMillisecond) {
  for (const int ms : {1, 57, 2007, 2043, 123'457, 999'999'999}) {
    Config config;
    config.sampler.step_limit = milliseconds(ms);
    EXPECT_EQ(parse_config(write_config(config), "a.toml").sampler.step_limit, milliseconds(ms));
  }
  Config config;
  set(config, "sampler.step_limit", "1e-9");
  EXPECT_EQ(config.sampler.step_limit, milliseconds(1)) << "no limit of zero";
}

TEST(Config, PresetsAreValidAndReadBack) {
  const TemporaryFolder folder;
  for (const auto& [name, doc] : presets()) {
    const Config config = preset(name);
    validate(config);
    write_file(folder / "p.toml", write_config(config));
    EXPECT_EQ(write_config(read_config(folder / "p.toml")), write_config(config)) << name;
  }
}

TEST(Config, AFileOverridesThePresetItNames) {
  const TemporaryFolder folder;
  write_file(folder / "mine.toml", "seed = 5\nbase = \"cartpole-ppo\"\n[ppo]\ndiscount = 1\n");
  Config config = preset_or_file((folder / "mine.toml").string());
  EXPECT_EQ(config.env_id, "CartPole-v1");
  EXPECT_EQ(config.seed, 5U);
  EXPECT_EQ(config.options<PpoOptions>().discount, 1.0);
  EXPECT_EQ(config.options<PpoOptions>().gae_lambda,
            preset("cartpole-ppo").options<PpoOptions>().gae_lambda);
}

TEST(Config, SchedulesAsLongAsTheRunFollowItsSteps) {
  const TemporaryFolder folder;
  const auto file = (folder / "a.toml").string();
  write_file(file, "steps = 4000\nschedule_steps = 4000\n");
  EXPECT_EQ(preset_or_file(file).schedule_steps, 0);
  write_file(file, "steps = 4000\nschedule_steps = 8000\n");
  EXPECT_EQ(preset_or_file(file).schedule_steps, 8000);
}

TEST(Config, WorkersAreChosenAgainWithTheSampler) {
  Config config;
  config.sampler.kind = SamplerKind::kAuto;
  config.sampler.workers = 3;
  config.sampler.groups = 2;
  forget_choice(config, {"steps"});
  EXPECT_EQ(config.sampler.workers, 3) << "the sampler is not chosen again";
  forget_choice(config, {"sampler.kind", "sampler.workers"});
  EXPECT_EQ(config.sampler.workers, 3) << "they are given";
  EXPECT_EQ(config.sampler.groups, 1);
  forget_choice(config, {"sampler.kind"});
  EXPECT_EQ(config.sampler.workers, 0);
}

TEST(Config, ASettingWithoutItsTableIsNamed) {
  for (const auto& [word, advice] : {std::pair{"clip", "expected ppo.clip"},
                                     {"workers", "expected sampler.workers"},
                                     {"memory", "expected model.memory"},
                                     {"env", "the nearest is 'env.id'"},
                                     {"sampler", "the nearest is 'sampler.kind'"},
                                     {"ppo.clop", "the nearest is 'ppo.clip'"},
                                     {"policy", "`shoal list settings` prints all"}}) {
    const auto said = message_of([word = word] {
      Config config;
      set(config, word, "1");
    });
    EXPECT_EQ(said, fmt::format("unknown setting '{}'; {}", word, advice));
  }
}

TEST(Config, ANameOfOtherLibrariesIsTranslated) {
  for (const auto& [algo, name, expected] :
       {std::tuple{"ppo", "gamma", "ppo.discount"},
        {"ppo", "ppo.gamma", "ppo.discount"},
        {"ppo", "n_envs", "sampler.envs"},
        {"ppo", "ppo.n_steps", "sampler.horizon"},
        {"ppo", "total_timesteps", "steps"},
        {"dqn", "dqn.gamma", "replay.discount"},
        {"dqn", "dqn.n_step", "replay.n_step"},
        {"a2c", "learning_rate", "a2c.learning_rate"},
        {"td3", "lr", "td3.critic_rate or td3.policy_rate"},
        {"td3", "td3.lr", "td3.critic_rate or td3.policy_rate"},
        {"dqn", "batch_size", "dqn.batch"},
        {"dqn", "buffer_size", "replay.size"}}) {
    const auto said = message_of([algo = algo, name = name] {
      Config config;
      config.algo = algo;
      set(config, name, "1");
    });
    EXPECT_EQ(said, fmt::format("unknown setting '{}'; expected {}", name, expected));
  }
  Config ppo;
  EXPECT_EQ(message_of([&] { set(ppo, "batch_size", "64"); }),
            "unknown setting 'batch_size'; give ppo.minibatches: sampler.horizon * sampler.envs / "
            "batch_size");
}

TEST(Config, SetReadsEveryKindOfValue) {
  Config config;
  set(config, "sampler.kind", "serial");
  set(config, "agent.act_precision", "\"bf16\"");
  set(config, "env.id", "ALE/Pong-v5");
  set(config, "model.hidden", "[8, 9]");
  set(config, "ppo.learning_rate", "1");
  set(config, "sampler.step_limit", "0.25");
  set(config, "atari.clip_reward", "true");
  set(config, "stop_return", "-20.5");
  set(config, "env.reward_scale", "9223372036854775807");
  EXPECT_EQ(config.sampler.kind, SamplerKind::kSerial);
  EXPECT_EQ(config.agent.act_precision, Precision::kBf16);
  EXPECT_EQ(config.env_id, "ALE/Pong-v5");
  EXPECT_EQ(config.model.hidden, (std::vector<std::int64_t>{8, 9}));
  EXPECT_EQ(config.options<PpoOptions>().learning_rate, 1.0);
  EXPECT_EQ(config.sampler.step_limit, milliseconds(250));
  EXPECT_TRUE(config.env.atari.clip_reward);
  EXPECT_EQ(config.stop_return, -20.5);
  EXPECT_EQ(config.env.reward_scale, 0x1p63);
}

TEST(Config, WholeNumbersMayHaveAnExponent) {
  Config config;
  set(config, "steps", "1.5e6");
  EXPECT_EQ(config.steps, 1'500'000);
  EXPECT_EQ(refusal("steps", "1e30"), "steps: found 1e+30, expected a whole number");
}

TEST(Config, ErrorsNameKeyFoundAndExpected) {
  EXPECT_EQ(refusal("ppo.epochs", "many"), "ppo.epochs: found 'many', expected a whole number");
  EXPECT_EQ(refusal("ppo.epochs", "2.5"), "ppo.epochs: found 2.5, expected a whole number");
  EXPECT_EQ(refusal("seed", "-1"), "seed: found -1, expected a whole number, 0 or more");
  EXPECT_EQ(refusal("sampler.pin", "1"), "sampler.pin: found 1, expected true or false");
  EXPECT_EQ(refusal("sampler.kind", "gpu"),
            "sampler.kind: found 'gpu', expected auto or serial or parallel-cpu or parallel-gpu");
  EXPECT_TRUE(
      contains(refusal("steps", "99999999999999999999"), "steps: found '99999999999999999999'"));
  EXPECT_TRUE(contains(refusal("threads", "3000000000"), "expected a smaller number"));
  EXPECT_TRUE(contains(refusal("stop_return", "nan"), "stop_return: found nan"));
  EXPECT_TRUE(contains(refusal("ppo.clip", "1\nseed = 2"), "ppo.clip: found '1"));
}

TEST(Config, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_TRUE(contains(refusal("ppo.learning_rat", "1"), "'ppo.learning_rate'"));
  EXPECT_TRUE(contains(message_of([] { preset("cartpol-ppo"); }), "'cartpole-ppo'"));
  const TemporaryFolder folder;
  write_file(folder / "x.toml", "[sampler]\nhorizn = 3\n");
  const auto message = message_of([&] { read_config(folder / "x.toml"); });
  EXPECT_TRUE(contains(message, "x.toml") && contains(message, "'sampler.horizon'")) << message;
}

TEST(Config, RenamedSettingsAreRefusedWithTheNewName) {
  EXPECT_EQ(refusal("preset", "cartpole-ppo"), "the setting 'preset' was renamed to 'base'");
  EXPECT_EQ(refusal("async.too_old", "drop"),
            "the setting 'async.too_old' was renamed to 'async.stale'");
}

TEST(Config, PresetsMayStartFromOthers) {
  Config config = preset("cartpole-impala");
  EXPECT_EQ(config.base, "cartpole-impala");
  EXPECT_EQ(config.sampler.horizon, 16);                       // its own setting
  EXPECT_TRUE(config.asynchronous);                            // from cartpole-appo
  EXPECT_EQ(config.options<PpoOptions>().max_grad_norm, 1.0);  // from cartpole-ppo
  EXPECT_EQ(presets().front().doc.find_first_of("#\n"), std::string::npos);
}

TEST(Config, AnotherTaskHasNoReturnToStopAt) {
  const std::string base = "base = \"cartpole-ppo\"\n", acrobot = "[env]\nid = \"Acrobot-v1\"\n";
  EXPECT_EQ(parse_config(base, "a.toml").stop_return, 475);
  EXPECT_TRUE(std::isinf(parse_config(base + acrobot, "a.toml").stop_return));
  EXPECT_EQ(parse_config(base + "stop_return = -80\n" + acrobot, "a.toml").stop_return, -80);
  EXPECT_EQ(parse_config(base + "[env]\nid = \"CartPole-v1\"\n", "a.toml").stop_return, 475);
}

EnvSpec task(const ArraySpec& observation, const ActionSpec& action) {
  return {.id = "Task", .observation = observation, .action = action};
}

TEST(Config, DefaultsSuitTheKindOfTask) {
  const ArraySpec vector{.shape = {8}},
      picture{.dtype = DType::kUInt8, .shape = {84, 84}, .low = 0, .high = 255, .stack = 4},
      small{.dtype = DType::kUInt8, .shape = {3, 7, 7}, .low = 0, .high = 255},
      memory{.dtype = DType::kUInt8, .shape = {128}, .low = 0, .high = 255};
  const auto discrete = ActionSpec::discrete(4), real = ActionSpec::box(2, -1, 1);
  const std::vector<std::string> on_policy{"ppo", "a2c", "impala"};
  const std::tuple<EnvSpec, std::string, std::vector<std::string>> kinds[] = {
      {task(vector, discrete), "vectors-discrete", {"dqn", "r2d1"}},
      {task(small, discrete), "vectors-discrete", {"dqn", "r2d1"}},
      {task(memory, discrete), "vectors-discrete", {"dqn", "r2d1"}},
      {task(vector, real), "vectors-real", {"sac", "td3", "ddpg"}},
      {task(picture, discrete), "pictures-discrete", {"dqn", "r2d1"}},
      {task(picture, real), "pictures-real", {"sac", "td3", "ddpg"}}};
  for (const auto& [env, name, off_policy] : kinds) {
    const auto plain = default_config(env);
    EXPECT_EQ(plain.base, "defaults/" + name);
    EXPECT_EQ(plain.algo, "ppo");
    auto algos = on_policy;
    algos.insert(algos.end(), off_policy.begin(), off_policy.end());
    for (const auto& algo : algos) {
      SCOPED_TRACE(name + " " + algo);
      auto config = default_config(env, algo);
      config.env_id = env.id;
      EXPECT_EQ(config.algo, algo);
      EXPECT_TRUE(std::isinf(config.stop_return));
      EXPECT_EQ(config.schedule_steps, 0);
      EXPECT_NO_THROW(validate(config));
      EXPECT_NO_THROW(make_agent(config, env));
    }
  }
  EXPECT_TRUE(contains(message_of([&] { default_config(task(vector, real), "sacc"); }), "'sac'"));
}

TEST(Config, DefaultsAreNoPresets) {
  for (const auto& preset : presets()) EXPECT_FALSE(preset.name.starts_with("defaults/"));
  EXPECT_FALSE(contains(message_of([&] { preset("defaults/x"); }), "nearest is 'defaults"));
}

// With fewer workers the largest share would be larger.
TEST(Config, WorkersAreAsManyAsCoresCanShare) {
  Config config;
  config.sampler.workers = 0;
  const auto cores = std::ssize(allowed_cores());
  for (config.sampler.envs = 1; config.sampler.envs <= 40; ++config.sampler.envs) {
    const auto envs = config.sampler.envs;
    const auto share_of = [&](std::int64_t workers) { return (envs + workers - 1) / workers; };
    const int count = worker_count(config);
    EXPECT_EQ(share_of(count), share_of(std::min<std::int64_t>(cores, envs)));
    if (count > 1) {
      EXPECT_GT(share_of(count - 1), share_of(count));
    }
    auto async = config;
    async.asynchronous = true;
    async.sampler.kind = SamplerKind::kParallelCpu;
    EXPECT_EQ(worker_count(async), envs % 2 == 0 ? 2 : 1) << "on every machine";
    async.algo = "dqn";
    EXPECT_EQ(worker_count(async), 1);
  }
  config.sampler.workers = 3;
  EXPECT_EQ(worker_count(config), 3);
}

TEST(Config, BrokenFilesAreOneLine) {
  const TemporaryFolder folder;
  for (const std::string text : {"steps = \n", "[ppo\n", "a = 1\na = 2\n", "base = 3\n",
                                 "sampler = 1\n", "\"", "\xff\xfe"}) {
    write_file(folder / "x.toml", text);
    const auto message = message_of([&] { read_config(folder / "x.toml"); });
    EXPECT_TRUE(contains(message, "x.toml") && !contains(message, "\n")) << message;
  }
  message_of([&] { read_config(folder / "missing.toml"); });
  message_of([&] { read_config(folder / ""); });
}

TEST(Config, ValidateRefusesWhatCannotWork) {
  const std::pair<const char*, const char*> wrong[] = {{"steps", "0"},
                                                       {"sampler.envs", "0"},
                                                       {"sampler.envs", "-3"},
                                                       {"sampler.horizon", "0"},
                                                       {"sampler.workers", "-1"},
                                                       {"sampler.workers", "33"},
                                                       {"ppo.minibatches", "0"},
                                                       {"ppo.minibatches", "100000"},
                                                       {"ppo.epochs", "0"},
                                                       {"ppo.discount", "1.5"},
                                                       {"ppo.learning_rate", "0"},
                                                       {"algo", "pp"},
                                                       {"model.name", "mpl"},
                                                       {"model.hidden", "[0]"},
                                                       {"schedule_steps", "1000"},
                                                       {"agent.act_precision", "bf16"},
                                                       {"device", "gpu"},
                                                       {"device", "cuda:x"},
                                                       {"threads", "-1"},
                                                       {"env.id", ""},
                                                       {"sampler.envs", "9000000000000000000"},
                                                       {"checkpoint_seconds", "0"}};
  for (const auto& [key, value] : wrong) {
    Config config = preset("cartpole-ppo");
    set(config, key, value);
    EXPECT_THROW(validate(config), Error) << key << " = " << value;
  }
}

TEST(Config, ValidateRefusesSettingsThatWorkOnlyAlone) {
  const auto refused = [](Config config, const std::map<std::string, std::string>& changes) {
    EXPECT_NO_THROW(validate(config));
    for (const auto& [key, value] : changes) set(config, key, value);
    return message_of([&] { validate(config); });
  };
  const auto cartpole = preset("cartpole-ppo");
  EXPECT_TRUE(contains(refused(cartpole, {{"ppo.anneal_learning_rate", "false"},
                                          {"ppo.anneal_clip", "true"},
                                          {"steps", "2000"},
                                          {"schedule_steps", "1000"}}),
                       "ppo.clip reaches 0"));
  EXPECT_TRUE(contains(refused(preset("pendulum-td3"), {{"td3.anneal_learning_rate", "true"},
                                                        {"steps", "2000"},
                                                        {"schedule_steps", "1000"}}),
                       "td3.critic_rate reaches 0"));
  auto appo = preset("cartpole-appo");
  set(appo, "sampler.envs", "16");
  set(appo, "sampler.workers", "2");
  EXPECT_TRUE(contains(refused(appo, {{"ppo.minibatches", "16"}}),
                       "expected at most the 8 environments (the environments of a worker"));
  set(appo, "ranks", "2");  // of 8 environments and one worker
  set(appo, "ppo.minibatches", "8");
  EXPECT_NO_THROW(validate(appo));
  EXPECT_TRUE(contains(refused(appo, {{"ppo.minibatches", "9"}}), "of each of 2 slices"));
}

TEST(Config, WorkersThatWriteRolloutsShareEvenlyInEachRank) {
  auto appo = preset("cartpole-appo");
  for (const auto& [ranks, envs, workers, is_even] : {std::tuple{2, 6, 3, false},
                                                      {3, 12, 4, false},
                                                      {2, 12, 4, true},
                                                      {3, 12, 2, true},
                                                      {1, 7, 2, false}}) {
    set(appo, "ranks", std::to_string(ranks));
    set(appo, "sampler.envs", std::to_string(envs));
    set(appo, "sampler.workers", std::to_string(workers));
    set(appo, "ppo.minibatches", "1");
    if (is_even)
      EXPECT_NO_THROW(validate(appo)) << ranks;
    else
      EXPECT_TRUE(contains(message_of([&] { validate(appo); }), "cannot be shared evenly by"));
  }
}

TEST(Config, SettingsThatAnAlgorithmDoesNotUseAreRefused) {
  for (const auto* name : {"pendulum-sac", "cartpole-dqn", "cartpole-r2d1"}) {
    for (const auto& [key, value] : {std::pair{"normalize_observation", "true"},
                                     {"initial_std", "0.5"},
                                     {"network_std", "true"},
                                     {"squash", "true"},
                                     {"act_precision", "bf16"}}) {
      Config config = preset(name);
      set(config, "model.name", "nature-cnn");  // the only one with act_precision
      set(config, std::string("agent.") + key, value);
      const auto text = message_of([&] { validate(config); });
      EXPECT_TRUE(contains(text, "does not use it")) << name << text;
    }
  }
}

TEST(Config, OffPolicyActorCriticsTakeAnyModelWithoutMemory) {
  for (const auto* algo : {"sac", "td3", "ddpg"}) {
    Config config = preset("pendulum-sac");
    set(config, "algo", algo);
    set(config, "model.name", "nature-cnn");
    EXPECT_NO_THROW(validate(config));
    set(config, std::string(algo) + ".precision", "bf16");
    EXPECT_TRUE(contains(message_of([&] { validate(config); }), "expected float32 with model"));
    set(config, "model.name", "auto");
    EXPECT_NO_THROW(validate(config));
    set(config, std::string(algo) + ".precision", "float32");
    set(config, "model.memory", "gru");
    EXPECT_TRUE(contains(message_of([&] { validate(config); }), "learns from single steps"));
  }
}

TEST(Config, NetworksAndMinibatchesThatDoNotFitAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {{"model.hidden", "[1000000, 1000000]"},
                                                       {"model.hidden", "[10000000000]"}};
  for (const auto& [key, value] : wrong) {
    Config config = preset("cartpole-ppo");
    set(config, key, value);
    EXPECT_THROW(make_agent(config), Error) << key << " = " << value;
  }
  Config wide = preset("pendulum-ppo");
  set(wide, "agent.network_std", "true");
  EXPECT_NO_THROW(make_agent(wide));
  set(wide, "agent.initial_std", "10");
  EXPECT_TRUE(contains(message_of([&] { make_agent(wide); }), "agent.initial_std: found 10"));
  Config config = preset("cartpole-ppo");
  const auto spec = make_env_factory(config)({})->spec();
  EXPECT_NO_THROW(require_minibatch_fits(config, spec));
  set(config, "sampler.envs", "10000000000");
  EXPECT_THROW(require_minibatch_fits(config, spec), Error);
  set(config, "ppo.gradient_accumulation", "1000000");
  EXPECT_NO_THROW(require_minibatch_fits(config, spec)) << "one piece at a time";
  Config appo = preset("cartpole-appo");
  set(appo, "sampler.envs", "10000000000");
  EXPECT_THROW(require_minibatch_fits(appo, spec), Error);
  set(appo, "sampler.workers", "1000000");
  EXPECT_NO_THROW(require_minibatch_fits(appo, spec)) << "the environments of one worker";
}

}  // namespace
}  // namespace shoal
