"""Looking at runs with the `shoal` program: play, plot, and evaluation beside training. Usage: watch_test.py SHOAL [unittest arguments]"""

import csv
import os
import pathlib
import re
import signal
import struct
import subprocess
import time
import unittest

from processes import children
from program import SHOAL, SharedFolderTest, shoal

SHORT = ["--quiet", "--set", "stop_return=inf", "--set", "sampler.horizon=16", "--set", "schedule_steps=0"]
# Writes its last argument, as ffmpeg does, and its arguments to a file beside it.
FFMPEG = """#!/bin/sh
for last; do :; done
echo "$@" > "$last.arguments"
exec /bin/cat > "$last"
"""


def table(file):
    with open(file) as lines:
        return list(csv.DictReader(lines))


def gif_pictures(file):
    """Width, height and durations of the pictures, in hundredths of a second."""
    data = file.read_bytes()
    assert data.startswith(b"GIF89a") and data.endswith(b";"), data[:6]
    width, height, colours = struct.unpack_from("<HHB", data, 6)
    assert colours < 128, "each picture has its own colours"
    at, durations = 13, []

    def skip_blocks(at):
        while data[at] > 0:
            at += 1 + data[at]
        return at + 1

    while data[at:at + 1] != b";":
        if data[at:at + 2] == b"!\xf9":
            durations.append(struct.unpack_from("<H", data, at + 4)[0])
        if data[at:at + 1] == b"!":
            at = skip_blocks(at + 2)
        else:
            colours = data[at + 9]
            at = skip_blocks(at + 11 + 3 * 2 ** (colours % 8 + 1))
    return width, height, durations


class WatchTest(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for seed in (1, 2):
            shoal("train", "cartpole-ppo", *SHORT, "--steps", 2048, "--seed", seed, "--out", cls.dir / f"run{seed}")
        cls.run1 = cls.dir / "run1"

    def ffmpeg(self, name, script):
        folder = self.dir / name
        folder.mkdir()
        (folder / "ffmpeg").write_text(script)
        (folder / "ffmpeg").chmod(0o755)
        return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    def test_play_prints_returns_and_repeats_itself(self):
        lines = shoal("play", self.run1, "--episodes", 3, "--seed", 5).stdout.splitlines()
        self.assertEqual(len(lines), 4)
        for line in lines[:3]:  # a point a step
            points, steps = re.fullmatch(r"episode \d: return (\d+)\.00 in (\d+) steps", line).groups()
            self.assertEqual(points, steps)
        self.assertRegex(lines[3], r"return [0-9.]+ ± [0-9.]+ over 3 episodes")
        self.assertEqual(shoal("play", self.run1, "--episodes", 3, "--seed", 5).stdout.splitlines(), lines)
        self.assertNotEqual(shoal("play", self.run1, "--episodes", 3, "--seed", 5, "--sample").stdout.splitlines(), lines)

    def test_a_film_has_a_picture_of_every_state(self):
        film = self.dir / "it's a film.mp4"
        environment = self.ffmpeg("good", FFMPEG)
        out = shoal("play", self.run1, "--episodes", 2, "--video", film, env=environment).stdout
        steps = sum(int(n) for n in re.findall(r"in (\d+) steps", out))
        self.assertEqual(film.stat().st_size, (steps + 2) * 400 * 600 * 3)
        unfinished = self.dir / "it's a film.new.mp4"  # renamed once it is whole
        self.assertFalse(unfinished.exists())
        arguments = pathlib.Path(f"{unfinished}.arguments").read_text()
        self.assertIn("-s 600x400 -r 50 ", arguments)
        shoal("play", self.run1, "--video", film, "--fps", 12.5, env=environment)
        self.assertIn("-r 12.5 ", pathlib.Path(f"{unfinished}.arguments").read_text())

    def test_an_episode_ends_after_the_most_steps(self):
        film = self.dir / "short.gif"
        out = shoal("play", self.run1, "--episodes", 2, "--max-steps", 7, "--video", film).stdout
        self.assertEqual(out.splitlines()[:2], [f"episode {i}: return 7.00 in 7 steps" for i in (1, 2)])
        self.assertEqual(len(gif_pictures(film)[2]), 16)

    def test_an_ffmpeg_that_fails_is_said(self):
        done = shoal("play", self.run1, "--video", self.dir / "b.mp4", env=self.ffmpeg("bad", "#!/bin/sh\nexit 3\n"), status=1)
        self.assertIn("ffmpeg cannot write", done.stderr)

    def test_a_gif_needs_no_ffmpeg(self):
        film, alone = self.dir / "film.gif", {**os.environ, "PATH": "/none"}
        out = shoal("play", self.run1, "--episodes", 2, "--video", film, "--fps", 40, env=alone).stdout
        steps = sum(int(n) for n in re.findall(r"in (\d+) steps", out))
        width, height, durations = gif_pictures(film)
        self.assertEqual((width, height, len(durations)), (600, 400, steps + 2))
        self.assertEqual(out.splitlines()[-1], str(film))
        self.assertEqual(set(durations), {2, 3})  # 2.5 on average
        self.assertEqual(list(self.dir.glob("film.gif?*")), [])
        full = self.dir / "full.gif"
        full.symlink_to("/dev/full")
        self.assertIn("No space left", shoal("play", self.run1, "--video", full, env=alone, status=1).stderr)

    def test_without_ffmpeg_other_formats_are_a_mistake(self):
        done = shoal("play", self.run1, "--video", self.dir / "silent.mp4", env={**os.environ, "PATH": "/none"}, status=2)
        self.assertIn("needs ffmpeg", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(list(self.dir.glob("silent*")), [])

    def test_the_terminal_shows_it(self):
        no_display = {**os.environ, "SDL_VIDEODRIVER": "none"}  # where the command knows windows
        out = shoal("play", self.run1, "--live", "--fps", 100000, env=no_display).stdout
        self.assertIn("▀", out)
        self.assertIn("38;2;202;152;101", out)
        self.assertGreater(out.index("\x1b[?25h"), out.rindex("▀"), "the cursor is back at the end")
        self.assertGreater(out.index("episode 1"), out.index("\x1b[?25h"))

    def test_a_window_shows_it_where_the_command_knows_windows(self):
        out = shoal("play", self.run1, "--live", "--fps", 100000, env={**os.environ, "SDL_VIDEODRIVER": "dummy"}).stdout
        self.assertIn("episode 1", out)
        libraries = subprocess.run(["ldd", SHOAL], capture_output=True, text=True, check=True).stdout
        self.assertEqual("▀" in out, "libSDL2" not in libraries)

    def test_plot(self):
        files = [self.dir / "curves.png", self.dir / "curves.svg"]
        shoal("plot", self.run1, self.dir / "run2", *[word for file in files for word in ("--out", file)])
        self.assertTrue(files[0].read_bytes().startswith(b"\x89PNG"))
        self.assertIn("</svg>", files[1].read_text())

    def test_mistakes(self):
        for arguments, word in (
            (["play", self.dir / "none"], "config.toml"),
            (["play", self.run1, "--episodes", "0"], "--episodes"),
            (["play", self.run1, "--max-steps", "-1"], "--max-steps"),
            (["play", self.run1, "--fps", "-1"], "--fps"),
            (["play", self.run1, "--video", "film"], "--video: found 'film'"),
            (["play", self.run1, "--video", "film.avi"], "expected a name ending in .gif, .mp4"),
            (["play", self.run1, "--video", "/none/film.gif"], "cannot write /none/film.gif"),
            (["play", self.run1, "--checkpoint", "best"], "best"),
            (["plot", self.dir / "none"], "config.toml"),
            (["plot", self.run1, "--y", "retrun"], "return_mean"),
            (["plot", self.run1, "--out", "curve.jpg"], ".png or .svg"),
            (["train", "cartpole-ppo", "--set", "live_eval_seconds=-1"], "live_eval_seconds"),
        ):
            with self.subTest(arguments):
                self.assertIn(word, shoal(*arguments, status=2).stderr)

    def test_evaluation_beside_training_changes_nothing(self):
        arguments = ["train", "cartpole-ppo", *SHORT, "--steps", 40960]
        alone, watched = self.dir / "alone", self.dir / "watched"
        shoal(*arguments, "--out", alone)
        shoal(*arguments, "--out", watched, "--set", "live_eval_seconds=0.05", "--set", "eval_episodes=2")
        self.assertEqual((alone / "model.ckpt").read_bytes(), (watched / "model.ckpt").read_bytes())

    def test_a_resumed_run_drops_evaluations_beyond_its_checkpoint(self):
        run = self.dir / "resumed"
        live = ["--set", "live_eval_seconds=1000", "--set", "eval_episodes=1"]
        shoal("train", "cartpole-ppo", *SHORT, "--steps", 2048, "--set", "schedule_steps=4096", "--out", run)
        rows = [f"{steps},1.5,1,{mean},0" for steps, mean in ((1024, 21), (2048, 22), (2049, 23), (2050, 24))]
        (run / "evaluation.csv").write_text("\n".join(["steps,seconds,episodes,return_mean,return_std", *rows, ""]))
        shoal("train", "--resume", run, "--steps", 4096, *live)
        means = {row["steps"]: row["return_mean"] for row in table(run / "evaluation.csv")}
        self.assertEqual((means["1024"], means["2048"]), ("21", "22"))
        self.assertNotIn("2049", means)
        self.assertNotIn("2050", means)

    def test_training_survives_the_death_of_its_evaluation(self):
        run = self.dir / "bereft"
        training = subprocess.Popen([SHOAL, "train", "cartpole-ppo", *SHORT, "--steps", "1000000000", "--out", str(run),
                                     "--set", "live_eval_seconds=0.01", "--set", "eval_episodes=2"],
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(training.kill)
        evaluations = run / "evaluation.csv"
        while not evaluations.exists() or len(table(evaluations)) < 2:
            self.assertIsNone(training.poll())
            time.sleep(0.01)
        rows = table(evaluations)
        self.assertEqual([row["episodes"] for row in rows], ["2"] * len(rows))
        self.assertEqual(len(set(row["steps"] for row in rows)), len(rows), "of other parameters each time")
        idle = [pid for pid in children(training.pid) if os.sched_getscheduler(pid) == os.SCHED_IDLE]
        self.assertEqual(len(idle), 1, "one process, at the lowest priority")
        os.kill(idle[0], signal.SIGKILL)
        line = training.stderr.readline()
        self.assertIn("live evaluation has ended, training continues", line)
        steps = len(table(run / "progress.csv"))
        while len(table(run / "progress.csv")) <= steps:
            self.assertIsNone(training.poll())
            time.sleep(0.01)
        training.send_signal(signal.SIGINT)
        self.assertEqual(training.wait(20), 128 + signal.SIGINT)
        self.assertLessEqual(set(row["steps"] for row in rows), set(row["steps"] for row in table(run / "progress.csv")))
        training.stderr.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
