"""What the `shoal` program writes and prints, with which policy a run begins, and its cores. Usage: command_test.py SHOAL [unittest arguments]"""

import json
import os
import pty
import re
import subprocess
import unittest

from processes import children, wait_until
from program import SHOAL, FolderTest, shoal, train


def written_to_a_terminal(stream, *arguments):
    """What the program writes to "stdout" or "stderr" if that is a terminal."""
    main, other = pty.openpty()
    process = subprocess.Popen([SHOAL, *arguments], **({"stdout": subprocess.DEVNULL} | {stream: other}))
    os.close(other)
    text = b""
    try:
        while part := os.read(main, 4096):
            text += part
    except OSError:
        pass  # the other end is closed
    os.close(main)
    if process.wait(timeout=60) != 0:
        raise AssertionError(text)
    return text


class CommandTest(FolderTest):
    def test_run_folder_and_eval(self):
        run = self.dir / "run"
        train(run, "--steps", 1024)
        self.assertEqual(sorted(f.name for f in run.iterdir()),
                         ["config.toml", "model.ckpt", "progress.csv", "summary.json"])
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["steps"], 1024)
        self.assertLessEqual({"final_return", "steps", "seconds", "sps", "seed", "version"}, summary.keys())
        said = shoal("eval", run, "--episodes", 7, "--json").stdout
        result = json.loads(said)
        self.assertEqual(set(result), {"mean_return", "std_return", "episodes"})
        self.assertEqual(result["episodes"], 7)
        self.assertEqual(shoal("eval", run, "--episodes", 7, "--json").stdout, said, "one seed, one result")
        self.assertNotEqual(shoal("eval", run, "--episodes", 7, "--json", "--seed", 9).stdout, said)

    def test_config_runs_again_equally(self):
        run, again = self.dir / "run", self.dir / "again"
        train(run, "--steps", 1024)
        shoal("train", run / "config.toml", "--out", again)
        for name in ("config.toml", "model.ckpt"):
            self.assertEqual((again / name).read_bytes(), (run / name).read_bytes(), name)
        rows = (again / "progress.csv").read_text().splitlines()
        self.assertEqual(len(rows), 1 + 1024 // 512)

    def test_default_folder_is_named_at_the_end(self):
        done = shoal("train", "cartpole-ppo", "--steps", "512", "--seed", "4", "--sampler", "serial", cwd=self.dir)
        (run,) = (self.dir / "runs").iterdir()
        self.assertTrue(run.name.startswith("cartpole-ppo-4-"), run.name)
        self.assertIn(f"shoal eval runs/{run.name}", done.stdout)

    def test_a_default_folder_without_a_preset_is_named_after_the_environment(self):
        elsewhere = self.dir / "elsewhere"
        elsewhere.mkdir()
        for source in (["--env", "Acrobot-v1"], [self.dir / "acrobot/config.toml"]):
            out = ["--out", self.dir / "acrobot"] if source[0] == "--env" else []
            shoal("train", *source, "--steps", "2048", *out, cwd=elsewhere)
        (run,) = (elsewhere / "runs").iterdir()
        self.assertTrue(run.name.startswith("Acrobot-v1-ppo-1-"), run.name)

    def test_commands_that_are_printed_run_in_a_shell(self):
        run = self.dir / "two words"
        said = train(run, "--steps", "512").stdout
        evaluate = re.search("(?m)^evaluate it: shoal (eval .*)$", said)[1]
        done = subprocess.run(f"{SHOAL} {evaluate} --episodes 1", shell=True, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        refused = shoal("train", "--resume", run, "--set", "ppo.clip=0.3", status=2)
        self.assertIn(f"--init-from '{run}'", refused.stderr)

    def test_the_zoo_tells_steps_from_bounds_of_them(self):
        lines = {line.split()[0]: " ".join(line.split()[3:]) for line in shoal("zoo").stdout.splitlines()}
        self.assertRegex(lines["zoo:cartpole-ppo"], r"^at most \d+ steps$")
        self.assertRegex(lines["zoo:cartpole-dqn"], r"^\d+ steps$")

    def test_rates_of_exploration_bind_no_other_number_of_environments(self):
        run = self.dir / "four"
        short = ["train", "cartpole-r2d1", "--steps", "400", "--quiet"]
        for arguments in ([*short, "--envs", "4", "--out", run], ["eval", run, "--episodes", "10", "--envs", "10", "--sample"],
                          ["export", run, "--out", run / "policy.safetensors"],
                          [*short, "--envs", "8", "--init-from", run, "--out", self.dir / "eight"],
                          [*short, "--envs", "8", "--init-from", run / "policy.safetensors", "--out", self.dir / "from-weights"]):
            shoal(*arguments)
        self.assertEqual((self.dir / "from-weights" / "model.ckpt").read_bytes(), (self.dir / "eight" / "model.ckpt").read_bytes())

    def test_a_run_begins_where_a_policy_of_the_zoo_ended(self):
        run = self.dir / "from-zoo"
        shoal("train", "cartpole-ppo", "--init-from", "zoo:cartpole-ppo", "--set", "ppo.learning_rate=1e-9", "--steps", "20000", "--out", run)
        for trained in "zoo:cartpole-ppo", run / "model.ckpt":
            done = shoal("eval", trained, "--episodes", "3")
            self.assertRegex(done.stdout, "^return 500.00", done.stderr)
        for arguments, words in ((["train", "cartpole-ppo", "--init-from", "zoo:cartpole-poo", "--out", self.dir / "new"], "'cartpole-ppo'; `shoal zoo`"),
                                 (["eval", "zoo:cartpole-ppo", "--checkpoint", "best.ckpt"], "is one file; expected a run folder")):
            self.assertIn(words, shoal(*arguments, status=2).stderr)

    def test_a_run_too_short_to_learn_says_so(self):
        for starts, said in ((400, False), (512, True)):
            done = shoal("train", "cartpole-dqn", "--steps", "512", "--set", f"off_policy.learning_starts={starts}", "--out",
                         self.dir / f"starts-{starts}")
            self.assertEqual("nothing is learned in 512 steps" in done.stdout, said)

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "there is one core only")
    def test_eval_pins_workers_as_the_run_did(self):
        run = self.dir / "pinned"
        train(run, "--steps", "512", "--set", "sampler.pin=true")
        process = subprocess.Popen([SHOAL, "eval", run, "--episodes", "1000000000"], stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: [len(os.sched_getaffinity(child)) for child in children(process.pid)] == [1, 1])
        finally:
            process.kill()
            process.wait()

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "there is one core only")
    def test_ranks_pin_their_workers_one_after_the_other(self):
        cores = sorted(os.sched_getaffinity(0))[:2]
        process = subprocess.Popen([SHOAL, "train", "cartpole-ppo", "--ranks", "3", "--steps", "1000000000", "--set", "stop_return=inf",
                                    "--sampler", "parallel-gpu", "--envs", "12", "--workers", "4", "--set", "sampler.pin=true",
                                    "--set", f"sampler.cores={cores}", "--out", self.dir / "ranks"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def pinned():
            everyone = [process.pid, *children(process.pid)]
            try:
                masks = [os.sched_getaffinity(child) for parent in everyone for child in children(parent)]
            except OSError:  # one has ended meanwhile
                return []
            return sorted(mask.pop() for mask in masks if len(mask) == 1)

        try:
            wait_until(lambda: pinned() == sorted(2 * cores))
        finally:
            process.kill()
            process.wait()

    def test_a_terminal_gets_a_live_line(self):
        text = written_to_a_terminal("stdout", "train", "cartpole-ppo", "--out", self.dir / "live", "--steps", "2048")
        self.assertIn(b"\r[", text)
        self.assertIn(b"100%", text)

    def test_check_env(self):
        done = shoal("check-env", "Pendulum-v1", "--steps", "200")
        self.assertEqual(done.stderr, "")
        self.assertIn("no mistake found in 200 steps", done.stdout)
        self.assertIn(b" of 7, step ", written_to_a_terminal("stderr", "check-env", "Acrobot-v1", "--steps", "300000"))
        self.assertIn("Pendulum-v1", shoal("check-env", "Pendulum-v0", status=2).stderr)

    def test_lists(self):
        for what, word in [("envs", "CartPole-v1"), ("algos", "ppo"), ("samplers", "parallel-gpu"),
                           ("presets", "pong-ppo"), ("settings", "ppo.learning_rate")]:
            self.assertIn(word, shoal("list", what).stdout)
        shoal("--help")
        shoal("--version")


if __name__ == "__main__":
    unittest.main()
