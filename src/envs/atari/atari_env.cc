#include "src/envs/atari/atari_env.h"

#include <algorithm>
#include <cstring>

#include "shoal/core/error.h"

namespace shoal {
namespace {

constexpr int kNoop = 0, kFire = 1;  // action codes

EnvSpec spec_of(const AtariEnv::Make& make, std::size_t actions) {
  const AtariOptions& o = make.options;
  std::vector<std::int64_t> shape{o.screen, o.screen};
  if (o.rgb) shape.insert(shape.begin(), 3);
  return {.id = make.id,
          .observation = ArraySpec{DType::kUInt8, shape, 0, 255, o.stack},
          .action = ActionSpec::discrete(static_cast<std::int64_t>(actions)),
          .info = {{"score", {DType::kFloat32, {}}, PerEpisode::kSum}},
          .fps = 60.0 / o.frame_skip};
}

float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }

}  // namespace

AtariGame::AtariGame(const shoal_ale_api& ale, shoal_ale_console* console, bool full_action_set) {
  ale.screen_size(console, &height, &width);
  actions.resize(SHOAL_ALE_MAX_ACTIONS);
  actions.resize(ale.actions(console, full_action_set ? 1 : 0, actions.data()));
  std::uint8_t colours[128][3];
  ale.palette(console, gray.data(), colours);
  for (std::size_t p = 0; p < rgb.size(); ++p)
    for (std::size_t i = 0; i < rgb[p].size(); ++i) rgb[p][i] = colours[i][p];
}

AtariEnv::AtariEnv(const Make& make, const EnvContext& context)
    : options_(make.options),
      ale_(ale_library(make.options.emulator)),
      console_(open_console(ale_, make.rom)),
      game_(ale_, console_.get(), make.options.full_action_set),
      spec_(spec_of(make, game_.actions.size())),
      frames_of_(
          {game_.height, game_.width, options_.screen, options_.frame_skip > 1},
          options_.rgb ? AtariFrames::Palettes(game_.rgb) : AtariFrames::Palettes(&game_.gray, 1)),
      rng_(context.seed),
      switched_on_(emulator_state()) {}

void AtariEnv::reset(std::optional<std::uint64_t> seed, StepOut out) {
  if (seed) {
    rng_ = Rng(*seed);
    restore_emulator(switched_on_);  // some emulator state survives a game
  }
  new_game();
  do_nothing();
  frames_of_.begin(ale_.screen(console_.get()));
  if (options_.fire_on_reset) press_fire();
  write(0, out);
}

void AtariEnv::new_game() {
  lives_ = ale_.reset(console_.get()).lives;
  held_action_ = kNoop;
  frames_ = 0;
}

void AtariEnv::do_nothing() {
  const std::int64_t n = options_.noop_max > 0 ? rng_.integer(1, options_.noop_max + 1) : 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const shoal_ale_frame frame = emulate(kNoop);
    lives_ = frame.lives;
    if (frame.game_over || out_of_time()) new_game();
  }
}

bool AtariEnv::fires() const {
  return options_.fire_on_reset && game_.actions.size() >= 3 && game_.actions[1] == kFire;
}

void AtariEnv::press_fire() {
  if (!fires()) return;
  for (const int action : {game_.actions[1], game_.actions[2]}) {
    if (!skip(action).game_over && !out_of_time()) continue;
    new_game();
    frames_of_.begin(ale_.screen(console_.get()));
  }
}

shoal_ale_frame AtariEnv::emulate(int action) {
  if (options_.sticky == 0 || rng_.uniform() >= options_.sticky) held_action_ = action;
  ++frames_;
  return ale_.act(console_.get(), held_action_);
}

AtariEnv::Skipped AtariEnv::skip(int action) {
  Skipped result;
  for (int i = 0; i < options_.frame_skip; ++i) {
    const shoal_ale_frame frame = emulate(action);
    result.reward += static_cast<float>(frame.reward);
    result.game_over = frame.game_over != 0;
    result.life_lost |= frame.lives < lives_;
    lives_ = frame.lives;
    const bool episode_ends = result.life_lost && options_.episodic_life;
    if (result.game_over || episode_ends || out_of_time()) break;
    if (i == options_.frame_skip - 1)
      frames_of_.newest(ale_.screen(console_.get()));
    else if (i == options_.frame_skip - 2)
      frames_of_.previous(ale_.screen(console_.get()));
  }
  return result;
}

StepResult AtariEnv::step(ArraysIn action, StepOut out) {
  const std::int64_t choice = *action.as<std::int64_t>();
  const auto n = static_cast<std::int64_t>(game_.actions.size());
  require(choice >= 0 && choice < n, "{}: action {}, expected 0 to {}", spec_.id, choice, n - 1);
  Skipped all = skip(game_.actions[choice]);
  const bool lost = all.life_lost && options_.episodic_life;
  if (all.life_lost && fires()) {
    for (std::size_t i = 1; i <= 2 && !all.game_over && !out_of_time(); ++i) {
      const Skipped fired = skip(game_.actions[i]);
      all.reward += fired.reward;
      all.game_over = fired.game_over;
    }
  }
  write(all.reward, out);
  const bool over = all.game_over || out_of_time();
  return {.reward = options_.clip_reward ? sign(all.reward) : all.reward,
          .terminated = all.game_over || lost,
          .truncated = out_of_time() && !all.game_over && !lost,
          .life_lost = lost && !over};
}

void AtariEnv::write(float score, const StepOut& out) {
  frames_of_.observe(out.observation.as<std::uint8_t>());
  *out.info.as<float>() = score;
}

std::vector<std::byte> AtariEnv::emulator_state() const {
  std::vector<std::byte> state(32 << 10);  // enough for most pictures
  const auto save = [&] {
    return ale_.save(console_.get(), reinterpret_cast<std::uint8_t*>(state.data()), state.size());
  };
  const auto size = save();
  require(size != 0, "{}: the emulator could not save its state", spec_.id);
  const bool fits = size <= state.size();
  state.resize(size);
  if (!fits) save();
  return state;
}

void AtariEnv::restore_emulator(std::span<const std::byte> state) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(state.data());
  require(ale_.load(console_.get(), bytes, state.size()) != 0,
          "{}: invalid saved state; expected one of this game", spec_.id);
}

bool AtariEnv::save(std::vector<std::byte>& bytes) const {
  const Position position{rng_.key(), rng_.counter(), frames_, lives_, held_action_};
  const std::vector<std::byte> emulator = emulator_state();
  bytes.resize(sizeof position + frames_of_.state_bytes());
  std::memcpy(bytes.data(), &position, sizeof position);
  frames_of_.save(bytes.data() + sizeof position);
  bytes.insert(bytes.end(), emulator.begin(), emulator.end());
  return true;
}

bool AtariEnv::load(std::span<const std::byte> bytes) {
  const std::size_t before = sizeof(Position) + frames_of_.state_bytes();
  require(bytes.size() > before, "{}: a saved state of {} bytes; expected more", spec_.id,
          bytes.size());
  restore_emulator(bytes.subspan(before));
  Position position;
  std::memcpy(&position, bytes.data(), sizeof position);
  rng_ = Rng(position.rng_key, position.rng_counter);
  frames_ = position.frames;
  lives_ = position.lives;
  held_action_ = position.held_action;
  frames_of_.load(bytes.data() + sizeof position);
  return true;
}

bool AtariEnv::render(Image& image) {
  image.height = game_.height;
  image.width = game_.width;
  const auto pixels = static_cast<std::size_t>(game_.height) * game_.width;
  image.rgb.resize(3 * pixels);
  const std::uint8_t* screen = ale_.screen(console_.get());
  for (std::size_t i = 0; i < pixels; ++i)
    for (std::size_t p = 0; p < 3; ++p) image.rgb[3 * i + p] = game_.rgb[p][screen[i] / 2];
  return true;
}

}  // namespace shoal
