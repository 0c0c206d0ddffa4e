#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace shoal::cli {

// What the chosen subcommand does, given main()'s argv; returns the exit status.
using Command = std::function<int(char** argv)>;

// Each adds one subcommand, which puts itself into `chosen` when it is parsed.
void add_train(CLI::App& app, Command& chosen);
void add_eval(CLI::App& app, Command& chosen);
void add_play(CLI::App& app, Command& chosen);
void add_plot(CLI::App& app, Command& chosen);
void add_export(CLI::App& app, Command& chosen);
void add_launch(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_list(CLI::App& app, Command& chosen);
void add_check_env(CLI::App& app, Command& chosen);
void add_verify(CLI::App& app, Command& chosen);
void add_rewind(CLI::App& app, Command& chosen);

// Runs the subcommand that argv names and returns the exit status. Prints errors.
int run_app(CLI::App& app, const Command& chosen, int argc, char** argv);

// Whether a run that goes on may have another value of this setting: it says where and how long,
// not what is trained.
bool may_change(const std::string& key);

// Exit statuses. A mistake is the user's and was found before the work began; a failure came while
// it was done. A signal gives 128 + its number.
inline constexpr int kSuccess = 0, kFailure = 1, kMistake = 2;

}  // namespace shoal::cli
