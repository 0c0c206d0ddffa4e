#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace shoal::cli {

// The action of the chosen subcommand. Takes main()'s argv; returns the exit status.
using Command = std::function<int(char** argv)>;

// Each adds one subcommand, which sets `chosen` when it is parsed.
void add_train(CLI::App& app, Command& chosen);
void add_eval(CLI::App& app, Command& chosen);
void add_play(CLI::App& app, Command& chosen);
void add_plot(CLI::App& app, Command& chosen);
void add_export(CLI::App& app, Command& chosen);
void add_launch(CLI::App& app, Command& chosen);
void add_tune(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_list(CLI::App& app, Command& chosen);
void add_check_env(CLI::App& app, Command& chosen);
void add_verify(CLI::App& app, Command& chosen);
void add_rewind(CLI::App& app, Command& chosen);
void add_zoo(CLI::App& app, Command& chosen);

// Runs the subcommand that argv names and returns the exit status. Prints errors.
int run_app(CLI::App& app, const Command& chosen, int argc, char** argv);

// Whether a resumed run may change this setting: true for settings that say where and how long it
// trains, not what it trains.
bool may_change(const std::string& key);

// Exit statuses. kMistake: an error of the user, found before the work began. kFailure: an error
// during the work. A signal gives 128 + its number.
inline constexpr int kSuccess = 0, kFailure = 1, kMistake = 2;

}  // namespace shoal::cli
