"""What a run shows: its progress, a chart, a film, and a notebook of them."""

import contextlib
import io
import math
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

import notebook

import shoal
from shoal.progress import Display, describe, read_progress

try:
    import matplotlib

    matplotlib.use("Agg")
except ImportError:
    matplotlib = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class ProgressTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, text):
        (self.folder / "progress.csv").write_text(text)
        return read_progress(self.folder)

    def test_reads_complete_rows(self):
        self.assertEqual(read_progress(self.folder), {})
        self.assertEqual(self.write(""), {})
        self.assertEqual(self.write("steps,sps"), {})
        self.assertEqual(self.write("steps,sps\n"), {"steps": [], "sps": []})
        read = self.write("# a run\nsteps,sps,return_mean\n10,5\n20,6,\n30,7,1.5\n40,8,2")
        self.assertEqual((read["steps"], read["sps"]), ([10, 20, 30], [5, 6, 7]))
        self.assertEqual([math.isnan(each) for each in read["return_mean"]], [True, True, False])

    def test_describes_the_newest_row(self):
        self.assertEqual(describe({}, 100, 61.5), (0.0, "starting, 1:01"))
        progress = {"steps": [1000, 2500], "sps": [10, 50], "return_mean": [math.nan, 3.14159]}
        self.assertEqual(
            describe(progress, 10_000, 9), (0.25, "2,500 of 10,000 steps (25%), return 3.142, 50 steps/s, 2:30 left")
        )
        progress = {"steps": [10_240], "sps": [50], "return_mean": [math.nan]}
        self.assertEqual(describe(progress, 10_000, 200), (1, "10,240 of 10,000 steps (100%), 50 steps/s, 3:20"))

    def test_shows_a_line_in_a_terminal(self):
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            shoal.train("cartpole-ppo", self.folder / "run", steps=4096, workers=1, progress=True)
        last = r"\r4,096 of 4,096 steps \(100%\), return [\d.]+, [\d,]+ steps/s, \d+:\d\d *\n$"
        self.assertRegex(shown.getvalue(), last)

    def test_shows_a_bar_in_a_notebook(self):
        shown = []
        handle = types.SimpleNamespace(update=shown.append)
        display = types.SimpleNamespace(HTML=lambda html: html, display=lambda html, display_id: handle)
        ipython = types.SimpleNamespace(display=display, get_ipython=lambda: types.SimpleNamespace(kernel=1))
        self.write("steps,sps\n50,5\n")
        with mock.patch.dict(sys.modules, {"IPython": ipython}), Display(self.folder, 100):
            pass
        self.assertRegex(shown[-1], '<progress value="0.5000".*50 of 100 steps')

    def run_of(self, steps):
        return shoal.train("cartpole-ppo", self.folder / "run", quiet=True, steps=steps, workers=1)

    @unittest.skipUnless(matplotlib, "needs matplotlib")
    def test_plots_columns(self):
        run = self.run_of(8192)
        axes = run.plot()
        line = axes.get_lines()[0]
        self.assertEqual(line.get_xdata().tolist(), run.progress["steps"])
        self.assertEqual(line.get_ydata().tolist(), run.progress["return_mean"])
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel(), line.get_label()), ("steps", "return_mean", "run"))
        self.assertIs(run.plot("kl", "entropy", x="seconds", axes=axes), axes)
        self.assertEqual([each.get_label() for each in axes.get_lines()], ["run", "run kl", "run entropy"])
        with self.assertRaisesRegex(ValueError, "'retrun', expected one of.*return_mean"):
            run.plot("retrun")

    def test_says_that_matplotlib_is_missing(self):
        run = self.run_of(4096)
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            with self.assertRaisesRegex(ImportError, "pip install matplotlib"):
                run.plot()

    def test_films_episodes(self):
        run = self.run_of(4096)
        film = run.film(self.folder / "run.gif")
        self.assertEqual((self.folder / "run.gif").read_bytes()[:6], b"GIF89a")
        self.assertIn("data:image/gif;base64,R0lGODlh", film._repr_html_())
        with self.assertRaisesRegex(shoal.Error, "abc"):
            run.film(self.folder / "run.abc")

    @unittest.skipUnless(matplotlib, "needs matplotlib")
    def test_the_notebook_runs(self):
        file = ROOT / "examples/python/6_notebook.ipynb"
        with contextlib.redirect_stderr(io.StringIO()):
            values = notebook.run(file, {"100_000": "8192", "episodes=20": "episodes=2"})
        kinds = [type(each).__name__ for each in values]
        self.assertEqual(kinds, ["NoneType", "Run", "Axes", "float", "Film", "Batch"])
        self.assertTrue(values[4].file.stat().st_size > 1000)
