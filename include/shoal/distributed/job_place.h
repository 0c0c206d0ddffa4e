#pragma once

#include <functional>
#include <string>

namespace shoal {

// The place of this process among those that a launcher has started as one job.
struct JobPlace {
  std::string launcher;  // "torchrun", "mpirun" or "srun"; empty: this process was started alone
  int place = 0, count = 1;
  int local_place = 0, local_count = 1;  // among the processes of this host
  // The rendezvous (TcpGroupOptions).
  std::string address = "127.0.0.1";
  int port = 29500;
  bool store_exists = false;
  std::string job;
};

// Reads environment variables:
//   torchrun     RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, TORCHELASTIC_*; any other launcher
//                that sets RANK and WORLD_SIZE is treated as torchrun, and must set LOCAL_RANK and
//                LOCAL_WORLD_SIZE
//   Open MPI     OMPI_COMM_WORLD_*
//   Slurm        SLURM_PROCID, SLURM_STEP_* and others, which srun sets for each task
// The rendezvous is at MASTER_ADDR and MASTER_PORT. Without them the address is the first host of
// Slurm's list, or this host if all processes are on it, or unknown (empty), and the port is
// derived from the job's number. Throws Error for invalid numbers.
using ReadVariable = std::function<const char*(const char* name)>;  // null: it is not set
JobPlace job_place();
JobPlace job_place(const ReadVariable& variable);

}  // namespace shoal
