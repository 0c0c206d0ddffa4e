#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/sweep.h"
#include "shoal/runners/run_folder.h"
#include "shoal/runners/summary_file.h"

namespace shoal::cli {

// The result so far, from the summary or, of a run that was killed, from its last checkpoint. Only
// a run that has reached the stop_return that the file has now is solved.
std::optional<RunSummary> outcome_of(const SweepRun& run);
// "return 475.25 after 77824 steps"; "return - ..." if no episode has ended.
std::string return_text(const RunSummary& outcome);

// Whether the run has reached its last step or its stop_return; a run that was stopped has an
// outcome, too.
inline bool is_end(const RunSummary& outcome, const SweepRun& run) {
  return outcome.solved || outcome.steps >= run.config.steps;
}

// Throws Error unless a run in the folder has the settings of the file, as far as they may not
// change; `fixed` may not either.
void require_same(const SweepRun& run, const std::string& fixed = "");

// Creates the folder of a sweep and locks it: one process at a time trains there.
RunFolder lock_sweep(const std::filesystem::path& out);

// Throws Error if a run that has begun cannot be resumed with what has changed in the file.
void require_resumable(const SweepRun& run);

std::string name_of(const SweepRun& run);  // name of its folder
// The file of its output, beside its folder.
std::filesystem::path log_of(const SweepRun& run);

// Cores, and possibly a GPU, for one run at a time.
struct Slot {
  std::vector<int> cores;
  int gpu = -1;
  pid_t pid = 0;  // of `shoal train`; 0: free
  std::size_t run = 0;
};

// Divides the cores that this process may use.
std::vector<Slot> make_slots(const Sweep& sweep);

// The words that start this command in another process: {"python", "-m", "shoal"}. Without a call,
// the file of this process is executed.
void set_program(std::vector<std::string> words);

// Starts a `shoal train` that begins the run, or resumes it with what has changed in the file.
// Throws Error if it cannot be started.
void begin(const SweepRun& run, Slot& slot);

// Asks the process of each slot to stop.
void terminate(const std::vector<Slot>& slots);

// The wait status of the slot's process once it has ended; the slot is then free.
std::optional<int> ended(Slot& slot);

}  // namespace shoal::cli
