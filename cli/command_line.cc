#include "shoal/cli/command_line.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/core/text.h"
#include "shoal/runners/version.h"
#include "src/core/print.h"

namespace shoal {
namespace cli {
namespace {

int complain(const std::string& what, int status) {
  std::fflush(stdout);
  // Drops torch's C++ backtrace, which does not help a user. A Python traceback is kept.
  print_error("shoal: {}\n", what.substr(0, what.find("\nException raised from ")));
  return status;
}

int complain_of_torch(const c10::Error& e) {
  const std::string what = e.what_without_backtrace();
  const bool memory = dynamic_cast<const c10::OutOfMemoryError*>(&e) != nullptr ||
                      what.find("allocate memory") != std::string::npos;
  const auto line = what.substr(0, what.find('\n'));
  return memory ? complain("out of memory: " + line, kMistake) : complain(line, kFailure);
}

int run_command(const Command& command, char** argv) {
  try {
    return command(argv);
  } catch (const Interrupted& e) {
    return complain(e.what(), 128 + e.signal);
  } catch (const Error& e) {
    return complain(e.what(), kMistake);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kMistake);
  } catch (const c10::Error& e) {
    return complain_of_torch(e);
  } catch (const std::exception& e) {
    return complain(e.what(), kFailure);
  }
}

// CLI11 would only say that a subcommand is required.
std::string unknown_command(CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end())
    return "";
  return fmt::format("found the command '{}', expected a known one; the nearest is '{}'",
                     one_line(word), nearest(word, names));
}

// A successful command fails if its output could not be written.
int check_output(int status) {
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::ferror(stdout) == 0) return status;
  std::clearerr(stdout);
  if (status != kSuccess) return status;
  return complain(fmt::format("cannot write to standard output: {}",
                              flushed ? "some output is lost" : std::strerror(error)),
                  kFailure);
}

// Otherwise the next file opened would take the descriptor of a closed standard stream, and receive
// its output.
void open_standard_streams() {
  for (int fd = 0; fd < 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

std::string refuse_nothing(std::string& text) {
  return text.empty() ? "found an empty value, expected one" : "";
}

std::string refuse_all_but_numbers(std::string& text) {
  std::int64_t number = 0;
  const auto* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool plain = error == std::errc() && stop == end && std::to_string(number) == text;
  return plain ? "" : fmt::format("found '{}', expected a whole number", one_line(text));
}

// CLI11 reads 010 as 8 and cuts off what is too large. An empty value, as of a variable of the
// shell that is not set, would leave the default.
void check_values(CLI::App& app) {
  for (auto* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(CLI::Validator(refuse_nothing, ""));
    if (option->get_type_name() == "INT") option->check(CLI::Validator(refuse_all_but_numbers, ""));
  }
  for (auto* command : app.get_subcommands({})) check_values(*command);
}

int parse_and_run(CLI::App& app, const Command& chosen, int argc, char** argv) {
  app.require_subcommand(1);
  check_values(app);
  if (argc > 1)
    if (const auto error = unknown_command(app, argv[1]); !error.empty())
      return complain(error, kMistake);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    std::string of = app.get_name();
    for (const auto* at = &app; !at->get_subcommands().empty(); at = at->get_subcommands()[0])
      of += " " + at->get_subcommands()[0]->get_name();
    return complain(fmt::format("{} (see {} --help)", one_line(e.what(), 500), of), kMistake);
  }
  return run_command(chosen, argv);
}

}  // namespace

int run_app(CLI::App& app, const Command& chosen, int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGCHLD, SIG_DFL);  // an inherited SIG_IGN would hide how children end
  // A write beyond the file size limit fails with an error instead of killing the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return check_output(parse_and_run(app, chosen, argc, argv));
}

}  // namespace cli

int run_command_line(int argc, char** argv) {
  CLI::App app("Sampling and learning for reinforcement learning.", "shoal");
  app.set_version_flag("--version", std::string(kVersion));
  cli::Command chosen;
  cli::add_train(app, chosen);
  cli::add_eval(app, chosen);
  cli::add_play(app, chosen);
  cli::add_plot(app, chosen);
  cli::add_export(app, chosen);
  cli::add_launch(app, chosen);
  cli::add_tune(app, chosen);
  cli::add_bench(app, chosen);
  cli::add_list(app, chosen);
  cli::add_check_env(app, chosen);
  cli::add_verify(app, chosen);
  cli::add_rewind(app, chosen);
  cli::add_zoo(app, chosen);
  return cli::run_app(app, chosen, argc, argv);
}

}  // namespace shoal
