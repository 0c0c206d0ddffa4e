#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "shoal/app/command_line.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/core/text.h"
#include "shoal/runners/console.h"
#include "shoal/runners/version.h"
#include "src/app/commands.h"

namespace shoal {
namespace app {
namespace {

int complain(const std::string& what, int status) {
  std::fflush(stdout);
  // Where in torch it was thrown is of no use to anybody here; a traceback of Python's is.
  print_to_stderr(
      fmt::format("shoal: {}\n", what.substr(0, what.find("\nException raised from "))));
  return status;
}

int complain_of_torch(const c10::Error& e) {
  const std::string what = e.what_without_backtrace();
  const bool memory = dynamic_cast<const c10::OutOfMemoryError*>(&e) != nullptr ||
                      what.find("allocate memory") != std::string::npos;
  const auto line = what.substr(0, what.find('\n'));
  return memory ? complain("more memory was asked for than there is: " + line, kMistake)
                : complain(line, kFailure);
}

int run_command(const Command& command, char** argv) {
  try {
    return command(argv);
  } catch (const Interrupted& e) {
    return complain(e.what(), 128 + e.signal);
  } catch (const Error& e) {
    return complain(e.what(), kMistake);
  } catch (const std::bad_alloc&) {
    return complain("more memory was asked for than there is", kMistake);
  } catch (const c10::Error& e) {
    return complain_of_torch(e);
  } catch (const std::exception& e) {
    return complain(e.what(), kFailure);
  }
}

// A mistyped command deserves better than "a subcommand is required".
std::string unknown_command(CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end())
    return "";
  return fmt::format("there is no command '{}'; the nearest is '{}'", one_line(word),
                     nearest(word, names));
}

// What could not be written makes a success a failure.
int check_output(int status) {
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::ferror(stdout) == 0) return status;
  std::clearerr(stdout);
  if (status != kSuccess) return status;
  return complain(fmt::format("cannot write to standard output: {}",
                              flushed ? "a part of it is lost" : std::strerror(error)),
                  kFailure);
}

// A file that is opened later would otherwise get the number of a closed standard stream, and what
// is printed.
void open_standard_streams() {
  for (int fd = 0; fd < 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

int run(int argc, char** argv) {
  CLI::App cli("Sampling and learning in reinforcement learning.", "shoal");
  cli.set_version_flag("--version", std::string(kVersion));
  cli.require_subcommand(1);
  app::Command chosen;
  app::add_train(cli, chosen);
  app::add_eval(cli, chosen);
  app::add_play(cli, chosen);
  app::add_plot(cli, chosen);
  app::add_export(cli, chosen);
  app::add_launch(cli, chosen);
  app::add_bench(cli, chosen);
  app::add_list(cli, chosen);
  app::add_check_env(cli, chosen);
  app::add_verify(cli, chosen);
  app::add_rewind(cli, chosen);
  if (argc > 1)
    if (const auto what = app::unknown_command(cli, argv[1]); !what.empty())
      return app::complain(what, app::kMistake);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return cli.exit(e);  // --help, --version
    return app::complain(one_line(e.what(), 500) + " (see shoal --help)", app::kMistake);
  }
  return app::run_command(chosen, argv);
}

}  // namespace
}  // namespace app

int run_command_line(int argc, char** argv) {
  app::open_standard_streams();
  // A file that may not grow any more is an error that can be told, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  return app::check_output(app::run(argc, argv));
}

}  // namespace shoal
