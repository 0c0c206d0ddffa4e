"""The `shoal` program as the processes of one job, on one machine or on several made of network namespaces.

Usage: jobs_test.py SHOAL TORCHRUN [KILLS] [unittest arguments]; TORCHRUN: "" if there is none; KILLS: how many times a process,
a rank or a worker is killed (default 4)."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

from processes import children, family, free_port, runs
from program import SHOAL, FolderTest, shoal

TORCHRUN = sys.argv.pop(1)
KILLS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 4

PPO = ["cartpole-ppo", "--set", "sampler.kind=parallel-gpu", "--workers", "4", "--set", "sampler.envs=16", "--set", "sampler.horizon=16", "--set", "schedule_steps=1000000000",
       "--set", "stop_return=inf", "--quiet"]  # rollouts of 256
DQN = ["cartpole-dqn", "--set", "schedule_steps=100000", "--set", "replay.size=2000", "--set", "off_policy.replay_ratio=8",
       "--set", "log_steps=0", "--set", "stop_return=inf", "--quiet"]
ENDLESS = ["--steps", "1000000000"]


def environment(place, count, port, **others):
    return os.environ | {"RANK": str(place), "WORLD_SIZE": str(count), "LOCAL_RANK": str(place), "LOCAL_WORLD_SIZE": str(count),
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} | others


def table(run):
    """progress.csv without the columns that are times."""
    lines = (run / "progress.csv").read_text().splitlines()
    rows = [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
    return [{k: v for k, v in row.items() if not k.startswith("share_") and k not in ("seconds", "sps")} for row in rows]


class JobsTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.run = self.dir / "run"

    def job(self, *arguments, count=2, places=None, out=True, each=None, command=lambda place: [], **others):
        """The processes of a job; `each`: arguments of each; `places`: those to start, if not all."""
        port = others.get("MASTER_PORT", free_port())
        processes = []
        for place in places or range(count):
            own = [*command(place), SHOAL, "train", *arguments, *(each[place] if each else []), *(["--out", self.run] if out else [])]
            processes.append(subprocess.Popen(own, env=environment(place, count, port, **others), stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, text=True))
            self.addCleanup(processes[-1].kill)
        return processes

    def ended(self, processes, within=60):
        return [(*process.communicate(timeout=within), process.returncode) for process in processes]

    def done(self, processes):
        for out, err, status in self.ended(processes):
            self.assertEqual((status, err), (0, ""), out)

    def alone(self, run, *arguments):
        shoal("train", *arguments, "--out", run)

    def wait_for_rows(self, processes, rows=2, run=None):
        progress = (run or self.run) / "progress.csv"
        while not (progress.exists() and progress.read_text().count("\n") > rows):
            for process in processes:
                if process.poll() is not None:
                    self.fail(process.communicate()[1])
            time.sleep(0.01)

    def test_two_processes_are_two_ranks(self):
        for name, arguments in (("ppo", [*PPO, "--steps", "5000"]), ("dqn", [*DQN, "--steps", "3000"])):
            with self.subTest(name):
                self.run = self.dir / name
                self.done(self.job(*arguments))
                whole = self.dir / f"{name} forked"
                self.alone(whole, *arguments, "--ranks", "2")
                self.assertEqual(table(self.run), table(whole))
                for file in whole.glob("*.ckpt"):
                    self.assertEqual((self.run / file.name).read_bytes(), file.read_bytes(), file.name)

    def test_processes_with_several_ranks_each(self):
        self.done(self.job(*PPO, "--ranks", "4", "--steps", "2000"))
        self.alone(self.dir / "forked", *PPO, "--ranks", "4", "--steps", "2000")
        ours, theirs = table(self.run), table(self.dir / "forked")
        self.assertEqual(len(ours), len(theirs))
        for column, value in theirs[0].items():  # the order of summation differs
            self.assertAlmostEqual(float(ours[0][column]), float(value), delta=1e-4 * max(1, abs(float(value))), msg=column)

    def test_one_speaks_for_all(self):
        noisy = [argument for argument in PPO if argument != "--quiet"]
        first, second = self.ended(self.job(*noisy, "--steps", "2000"))
        self.assertIn("2 ranks in 2 processes of torchrun", first[0])
        self.assertIn(f"done: {self.run}", first[0])
        self.assertEqual(second, ("", "", 0))

    def test_who_is_killed_ends_all(self):
        random.seed(5)
        for kill in range(KILLS):
            self.run = self.dir / f"run{kill}"
            large = ["--set", "model.hidden=[300, 300]"] if kill % 2 else []  # gradients are summed during backward
            processes = self.job(*PPO, *ENDLESS, *large, "--ranks", "4" if kill % 2 else "2")
            self.wait_for_rows(processes)
            families = [family(process.pid) for process in processes]
            everybody = [member for each in families for member in each]
            self.assertEqual(len(everybody), 2 + 4 + (4 if kill % 2 else 0))
            victim = random.choice(everybody)
            os.kill(victim, signal.SIGKILL)
            ends = self.ended(processes, within=3)
            begin = time.monotonic()
            while any(map(runs, everybody)):
                self.assertLess(time.monotonic() - begin, 3, "something is left behind")
                time.sleep(0.01)
            for place, (_, err, status) in enumerate(ends):
                if families[place][0] == victim:
                    continue
                self.assertEqual(status, 1, err)
                self.assertIn(f"process {place} of 2: ", err)
                if victim not in families[place]:
                    self.assertIn(f"process {1 - place} of 2 has closed its connection", err)
                else:
                    self.assertIn("SIGKILL", err)

    def test_who_is_stopped_is_named(self):
        processes = self.job(*PPO, *ENDLESS, "--set", "rank_timeout=3")
        self.wait_for_rows(processes)
        processes[1].send_signal(signal.SIGSTOP)
        _, err, status = self.ended(processes[:1], within=7)[0]
        self.assertEqual(status, 1, err)
        self.assertIn("process 0 of 2: process 1 of 2 did not respond for 3.0 s", err)

    def test_time_in_which_all_are_suspended_does_not_count(self):
        processes = self.job(*PPO, *ENDLESS, "--set", "rank_timeout=3")
        self.wait_for_rows(processes)
        everybody = [member for process in processes for member in family(process.pid)]
        for _ in range(3):
            for signal_of_all, seconds in ((signal.SIGSTOP, 4), (signal.SIGCONT, 0)):
                for member in everybody:
                    os.kill(member, signal_of_all)
                time.sleep(seconds)
            self.wait_for_rows(processes, (self.run / "progress.csv").read_text().count("\n") + 2)
        processes[0].send_signal(signal.SIGINT)
        for _, err, status in self.ended(processes, within=10):
            self.assertEqual(status, 130, err)

    def test_who_is_killed_or_stopped_while_they_join_is_named(self):
        random.seed(11)
        for kill in range(KILLS // 2):
            self.run = self.dir / f"run{kill}"
            processes = self.job(*PPO, "--set", "sampler.envs=18", *ENDLESS, "--set", "rank_timeout=2", count=3)
            time.sleep(random.uniform(0, 1.2))  # a random moment of the kill; no wait depends on it
            victim = random.randrange(3)
            everybody = [member for process in processes for member in family(process.pid)]
            processes[victim].send_signal(random.choice((signal.SIGKILL, signal.SIGSTOP)))
            ends = self.ended([process for process in processes if process is not processes[victim]], within=15)
            self.assertEqual([status for *_, status in ends], [1, 1], ends)
            self.assertRegex(ends[0][1] + ends[1][1], f": process {victim} of 3 (has|was|cannot|did) ")
            processes[victim].kill()
            processes[victim].communicate(timeout=3)
            begin = time.monotonic()
            while any(map(runs, everybody)):
                self.assertLess(time.monotonic() - begin, 3, "something is left behind")
                time.sleep(0.01)

    def test_any_of_them_can_be_asked_to_stop(self):
        for asked in range(2):
            with self.subTest(asked):
                self.run = self.dir / f"run{asked}"
                processes = self.job(*PPO, *ENDLESS)
                self.wait_for_rows(processes)
                processes[asked].send_signal(signal.SIGTERM)
                for _, err, status in self.ended(processes, within=10):
                    self.assertEqual((status, err), (128 + signal.SIGTERM, ""))
                rows = len(table(self.run))
                self.done(self.job("--resume", self.run, "--steps", str(256 * (rows + 2)), "--quiet", out=False))
                self.assertEqual(len(table(self.run)), rows + 2)

    def test_a_job_that_is_started_again_goes_on(self):
        arguments = [*PPO, "--set", "checkpoint_steps=256"]
        whole = self.dir / "whole"
        self.alone(whole, *PPO, "--steps", "3000", "--ranks", "2")
        processes = self.job(*arguments, "--steps", "3000000")  # every attempt has the same arguments
        self.wait_for_rows(processes, rows=4)
        processes[1].kill()
        self.ended(processes, within=3)
        before = len(table(self.run))
        processes = self.job(*arguments, "--steps", "3000000")
        self.wait_for_rows(processes, rows=before + 10)
        for process in processes:
            process.terminate()
        self.ended(processes, within=10)
        ours = table(self.run)
        self.assertEqual([int(row["steps"]) for row in ours], [256 * (i + 1) for i in range(len(ours))])
        for key in ("return_mean", "policy_loss"):  # it is the run that was never stopped
            self.assertEqual([row[key] for row in ours[:11]], [row[key] for row in table(whole)[:11]])
        for _, err, status in self.ended(self.job(*arguments, "--seed", "2")):
            self.assertEqual(status, 2)
            self.assertIn("has other settings than this job", err)

    def test_a_job_that_is_started_again_without_a_checkpoint_begins_anew(self):
        arguments = [*PPO, "--set", "checkpoint_seconds=1000", "--steps", "20000"]
        processes = self.job(*arguments)
        self.wait_for_rows(processes, rows=4)
        processes[0].kill()
        self.ended(processes, within=3)
        self.assertFalse((self.run / "model.ckpt").exists())
        self.done(self.job(*arguments))
        steps = [int(row["steps"]) for row in table(self.run)]
        self.assertEqual(steps, [256 * (i + 1) for i in range(79)])

    def refused(self, process):
        _, err, status = self.ended([process], within=10)[0]
        self.assertEqual(status, 2, err)
        return err

    def test_a_second_process_of_a_rank_is_told_so_and_the_job_goes_on(self):
        arguments, port = [*PPO, *ENDLESS], str(free_port())
        processes = self.job(*arguments, MASTER_PORT=port)
        self.wait_for_rows(processes)
        second = self.job(*arguments, places=[1, 0], MASTER_PORT=port)
        self.assertIn("is already running: all its 2 processes had connected before this one, which claims to be process 1", self.refused(second[0]))
        self.assertIn("in use by another run", self.refused(second[1]))
        self.wait_for_rows(processes, rows=len(table(self.run)) + 10)
        processes[0].terminate()
        ends = self.ended(processes, within=10)
        self.assertEqual([status for *_, status in ends], [128 + signal.SIGTERM] * 2)
        self.assertRegex(ends[0][1], r"^note: process 0 of 2: a second process 1 connected from [0-9.]+ and was rejected\n$")
        self.assertEqual(ends[1][1], "")

    def test_a_process_that_comes_when_the_job_has_ended_is_told_so(self):
        for end, word in ((["--steps", "512"], "has taken 512 of its 512 steps"),
                          (["--steps", "1000000", "--set", "stop_return=10"], "has ended: it is solved")):
            self.run = self.dir / word
            self.done(self.job(*PPO, *end))
            self.assertIn(word, self.refused(self.job(*PPO, *end, places=[1])[0]))

    def test_mistakes_are_named(self):
        for arguments, word in ((["--ranks", "3", "--set", "sampler.envs=18"], "ranks: found 3, which the 2 processes of torchrun cannot share"),
                                (["--set", "sampler.envs=15"], "sampler.envs: found 15, which 2 ranks cannot share"),
                                (["--device", "cuda"], "device cuda: each of the 2 ranks on this machine needs a GPU of its own"),
                                (["--set", "rank_backend=nccl"], "rank_backend: nccl"),
                                (["--set", "algo=dqn", "--set", "replay.shared=true"], "replay.shared: a shared replay needs all ranks")):
            with self.subTest(word):
                if "cuda" in arguments and pathlib.Path("/proc/driver/nvidia/gpus").exists():
                    continue
                for place, (_, err, status) in enumerate(self.ended(self.job(*PPO, *arguments))):
                    self.assertEqual(status, 2, err)
                    self.assertIn(f"process {place} of 2: {word}", err)
                self.assertFalse(self.run.exists())
        for _, err, status in self.ended(self.job(*PPO, out=False)):
            self.assertEqual(status, 2)
            self.assertIn("with --out", err)

    def test_settings_that_differ_are_told(self):
        ends = self.ended(self.job(*PPO, *ENDLESS, each=[[], ["--seed", "2"]]))
        self.assertEqual([status for *_, status in ends], [1, 1])
        self.assertIn("the settings of rank 1 differ from rank 0's", ends[0][1] + ends[1][1])

    def mpirun(self, *arguments, count=2):
        if shutil.which("mpirun") is None:
            self.skipTest("there is no mpirun")
        may_be_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        job = subprocess.Popen(["mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(count), SHOAL, "train", *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | may_be_root)
        self.addCleanup(job.kill)
        return job

    def test_mpirun(self):
        # "auto" adds up over MPI before the workers are forked.
        for backend, sampler in ("tcp", "parallel-gpu"), ("mpi", "parallel-gpu"), ("mpi", "auto"):
            with self.subTest(backend, sampler=sampler):
                self.run = self.dir / f"{backend} {sampler}"
                arguments = [*PPO, "--steps", "2000", "--sampler", sampler, "--set", f"rank_backend={backend}"]
                self.done([self.mpirun(*arguments, "--out", self.run)])
                forked = self.dir / f"{backend} {sampler} forked"
                self.alone(forked, *arguments, "--ranks", "2")
                self.assertEqual(table(self.run), table(forked))

    def test_mpi_ranks_of_three_processes_with_two_each(self):
        arguments = [*PPO, "--set", "sampler.envs=18", "--set", "sampler.workers=6", "--ranks", "6", "--steps", "2000"]
        for backend in ("tcp", "mpi"):  # one ring, in the same order
            self.done([self.mpirun(*arguments, "--set", f"rank_backend={backend}", "--out", self.dir / backend, count=3)])
        self.assertEqual(table(self.dir / "mpi"), table(self.dir / "tcp"))

    def test_who_is_stopped_is_named_by_mpi(self):
        job = self.mpirun(*PPO, *ENDLESS, "--set", "rank_backend=mpi", "--out", self.run, "--set", "rank_timeout=3")
        self.wait_for_rows([job])
        stopped = [pid for pid in children(job.pid) if "shoal" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()][1]
        os.kill(stopped, signal.SIGSTOP)
        text = job.communicate(timeout=15)[1]
        self.assertNotEqual(job.returncode, 0, text)
        self.assertIn("process 0 of 2: process 1 of 2 did not respond for 3.0 s", text)

    def test_a_job_of_mpi_ends_with_whoever_is_killed(self):
        random.seed(7)
        for kill in range(KILLS):
            self.run = self.dir / f"mpi{kill}"
            job = self.mpirun(*PPO, *ENDLESS, "--set", "rank_backend=mpi", "--out", self.run, "--ranks", "4" if kill % 2 else "2")
            self.wait_for_rows([job])
            everybody = family(job.pid)[1:]
            victim = random.choice(everybody)
            os.kill(victim, signal.SIGKILL)
            text = job.communicate(timeout=5)[1]
            self.assertNotEqual(job.returncode, 0, text)
            begin = time.monotonic()
            while any(map(runs, everybody)):
                self.assertLess(time.monotonic() - begin, 3, "something is left behind")
                time.sleep(0.01)

    def test_torchrun_starts_it_again(self):
        if not TORCHRUN:
            self.skipTest("there is no torchrun")
        log = (self.dir / "log").open("w")
        job = subprocess.Popen([TORCHRUN, "--standalone", "--no-python", "--nproc-per-node", "2", "--max-restarts", "2",
                                "--monitor-interval", "0.1", SHOAL, "train", *PPO, "--set", "checkpoint_steps=256", "--steps", "20000",
                                "--out", self.run], stdout=log, stderr=log)
        self.addCleanup(job.kill)
        self.wait_for_rows([job], rows=4)
        victims = [pid for pid in family(job.pid)[1:] if "shoal" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]
        os.kill(victims[0], signal.SIGKILL)
        job.wait(timeout=100)
        self.assertEqual(job.returncode, 0, (self.dir / "log").read_text())
        steps = [int(row["steps"]) for row in table(self.run)]
        self.assertEqual(steps, [256 * (i + 1) for i in range(len(steps))])
        self.assertGreaterEqual(steps[-1], 20000)
        self.assertIn("exitcode: -9", (self.dir / "log").read_text())
        seconds = [float(line.split(",")[1]) for line in (self.run / "progress.csv").read_text().splitlines()[1:]]
        self.assertEqual(seconds, sorted(seconds))  # the clock of a run that went on does so, too


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, check=False).returncode == 0


class HostsTest(JobsTest):
    """Two hosts, with a cable between them."""

    def setUp(self):
        super().setUp()
        number = os.getpid() % 100000
        self.names = [f"shoal-{number}-{host}" for host in range(2)]
        if shutil.which("ip") is None or not ip("netns", "add", self.names[0]):
            self.skipTest("network namespaces cannot be made here")
        self.addCleanup(ip, "netns", "del", self.names[0])
        self.addCleanup(ip, "netns", "del", self.names[1])
        ends = [f"veth{number}{end}" for end in "ab"]
        made = ip("netns", "add", self.names[1]) and ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for host, (name, end) in enumerate(zip(self.names, ends)):
            made = made and ip("link", "set", end, "netns", name) and ip("-n", name, "addr", "add", f"10.77.0.{host + 1}/24", "dev", end)
            made = made and ip("-n", name, "link", "set", end, "up") and ip("-n", name, "link", "set", "lo", "up")
        self.assertTrue(made)
        self.cable = ends[1]

    def job(self, *arguments, **others):
        here = {"MASTER_ADDR": "10.77.0.1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        return super().job(*arguments, command=lambda place: ["ip", "netns", "exec", self.names[place]], **(here | others))

    def test_a_cable_that_is_pulled_out_is_noticed(self):
        processes = self.job(*PPO, *ENDLESS, "--set", "rank_timeout=3")
        self.wait_for_rows(processes)
        self.assertTrue(ip("-n", self.names[1], "link", "set", self.cable, "down"))
        for place, (_, err, status) in enumerate(self.ended(processes, within=7)):
            self.assertEqual(status, 1, err)
            self.assertRegex(err, f"process {place} of 2: process {1 - place} of 2 (has|did)")


# Tests of the launcher, not of the network.
for name in ("test_mpirun", "test_mpi_ranks_of_three_processes_with_two_each", "test_a_job_of_mpi_ends_with_whoever_is_killed",
             "test_torchrun_starts_it_again", "test_mistakes_are_named", "test_one_speaks_for_all",
             "test_who_is_stopped_is_named_by_mpi", "test_settings_that_differ_are_told", "test_who_is_killed_or_stopped_while_they_join_is_named",
             "test_a_process_that_comes_when_the_job_has_ended_is_told_so", "test_a_job_that_is_started_again_without_a_checkpoint_begins_anew"):
    setattr(HostsTest, name, None)


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    nothing = result.testsRun == len(result.skipped)  # of it can be tested here
    sys.exit(77 if nothing else 0 if result.wasSuccessful() else 1)
