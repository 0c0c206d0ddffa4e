#pragma once

#include <functional>
#include <string>

namespace shoal {

// Which one this process is, of those that a launcher has started as one job.
struct JobPlace {
  std::string launcher;  // "torchrun", "mpirun" or "srun"; empty: this process was started alone
  int place = 0, count = 1;
  int local_place = 0, local_count = 1;  // among those of this host
  // Where they can meet (TcpGroupOptions).
  std::string address = "127.0.0.1";
  int port = 29500;
  bool store_exists = false;
  std::string job;
};

// As the environment says:
//   torchrun     RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, TORCHELASTIC_*; anything else that
//                sets the first two is taken for it
//   Open MPI     OMPI_COMM_WORLD_*
//   Slurm        SLURM_PROCID, SLURM_STEP_* and others, which srun sets for each task
// MASTER_ADDR and MASTER_PORT say where to meet; without them it is the first host of Slurm's list,
// or this one if all are here, or unknown (empty), and a port that follows from the job's number.
// Throws Error for numbers that cannot be.
using ReadVariable = std::function<const char*(const char* name)>;  // null: it is not set
JobPlace job_place();
JobPlace job_place(const ReadVariable& variable);

}  // namespace shoal
