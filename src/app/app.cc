#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <string>

#include "shoal/core/error.h"
#include "shoal/runners/version.h"
#include "src/app/commands.h"

namespace shoal::app {
namespace {

int complain(const std::string& what, int status) {
  std::fflush(stdout);
  fmt::print(stderr, "shoal: {}\n", what.substr(0, what.find('\n')));
  return status;
}

int complain_of_torch(const c10::Error& e) {
  const std::string what = e.what_without_backtrace();
  const bool memory = dynamic_cast<const c10::OutOfMemoryError*>(&e) != nullptr ||
                      what.find("allocate memory") != std::string::npos;
  return memory ? complain("more memory was asked for than there is: " + what, kMistake)
                : complain(what, kFailure);
}

int run_command(const Command& command, char** argv) {
  try {
    return command(argv);
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

}  // namespace

int run(int argc, char** argv) {
  CLI::App app("Sampling and learning in reinforcement learning.", "shoal");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  Command chosen;
  add_train(app, chosen);
  add_eval(app, chosen);
  add_bench(app, chosen);
  add_list(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return complain(std::string(e.what()) + " (see shoal --help)", kMistake);
  }
  return run_command(chosen, argv);
}

}  // namespace shoal::app
