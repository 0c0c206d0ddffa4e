"""The package as pip installs it: a wheel of the build, in a virtual environment of its own beside a torch."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import venv

try:
    import auditwheel
except ImportError:
    auditwheel = None
try:
    import mypy
except ImportError:
    mypy = None
try:
    import scikit_build_core
except ImportError:
    scikit_build_core = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = os.environ["SHOAL_BUILD"]
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
TRAIN = """
import shoal
agent = shoal.ActorCritic("CartPole-v1")
algo = shoal.PPO(agent)
with shoal.Sampler(None, agent, envs=4, workers=2, horizon=16) as sampler:
    for _ in range(3):
        assert algo.update(sampler.collect())
print(algo.steps, shoal.__file__)
"""


def run(*command, **options):
    """The output of a program."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), env=environment, text=True, capture_output=True, timeout=500, **options
    )
    if done.returncode:
        raise AssertionError(f"{command} ended with status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


@unittest.skipUnless(scikit_build_core, "needs scikit-build-core")
class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        settings = [f"cmake.define.SHOAL_PREBUILT={BUILD}", f"build-dir={cls.folder / 'build'}"]
        options = ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", cls.folder]
        run(sys.executable, *PIP, "wheel", *options, *(f"--config-settings={each}" for each in settings), ROOT)
        (cls.wheel,) = cls.folder.glob("*.whl")
        # All packages of this environment but Shoal, as links: torch is 1 GB.
        venv.create(cls.folder / "venv", with_pip=False)
        cls.python = cls.folder / "venv/bin/python"
        cls.site = pathlib.Path(run(cls.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        for each in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
            if each.name != "shoal" and not each.name.startswith(("shoal-", "__pycache__")):
                (cls.site / each.name).symlink_to(each)
        run(cls.python, *PIP, "install", "--no-index", cls.wheel)

    def test_trains(self):
        steps, file = run(self.python, "-c", TRAIN, cwd=self.folder).split()
        self.assertEqual(steps, "192")
        self.assertEqual(pathlib.Path(file).parent, self.site / "shoal")

    def test_has_the_command_and_the_plugins_of_the_build(self):
        command = self.folder / "venv/bin/shoal"
        self.assertEqual(
            run(command, "list", "envs"),
            run(os.environ["SHOAL_COMMAND"], "list", "envs"),
        )
        plugins = {each.name for each in (self.site / "shoal/lib").glob("*.so")}
        self.assertEqual(plugins, {each.name for each in pathlib.Path(BUILD, "lib").glob("shoal_*.so")})
        if "shoal_ale.so" in plugins:
            self.assertIn("GNU GENERAL PUBLIC LICENSE", (self.site / "shoal/lib/shoal_ale.LICENSE.md").read_text())

    def test_finds_the_torch_beside_it(self):
        (core,) = (self.site / "shoal").glob("_core*.so")
        dynamic = run("readelf", "-d", core)
        self.assertIn("[$ORIGIN/../torch/lib]", dynamic)

    @unittest.skipUnless(auditwheel, "needs auditwheel")
    def test_needs_the_libraries_that_the_docs_name(self):
        needs = run(sys.executable, "-m", "auditwheel", "-v", "show", self.wheel)
        self.assertIn('constrains the platform tag to "manylinux', " ".join(needs.split()))
        for library in ("libtorch_python.so", "libcairo.so.2", "libgif.so.7", "libz.so.1", "libgomp.so.1"):
            self.assertIn(library, needs)

    @unittest.skipUnless(mypy, "needs mypy")
    def test_is_typed(self):
        def check(*programs):
            cache = pathlib.Path(BUILD, "mypy_cache")
            # Some functions of torch, such as backward(), have no types.
            options = ["--strict", "--untyped-calls-exclude=torch", "--cache-dir", cache]
            return run(self.python, "-m", "mypy", *options, *programs, cwd=self.folder)

        check(*(option for each in ("_core", "algos", "parts", "settings") for option in ("-m", f"shoal.{each}")))
        check(ROOT / "tests/python/typed_program.py", *sorted((ROOT / "examples/python").glob("*.py")))
        wrong = self.folder / "wrong.py"
        unexpected = 'Unexpected keyword argument "{}" for "{}"'
        faults = {
            "shoal.PPO(shoal.Agent('CartPole-v1'), clip='1')": 'Argument "clip" to "PPO" has incompatible type "str"',
            "shoal.Sampler(kind='fast')": "expected \"Literal['auto', 'serial', 'parallel-cpu', 'parallel-gpu']\"",
            "shoal.PPO(shoal.Agent('CartPole-v1'), clipp=0.1)": unexpected.format("clipp", "PPO"),
            "shoal.train('cartpole-ppo', 'runs/x', stepz=1)": unexpected.format("stepz", "train"),
            "shoal.train('cartpole-ppo', 'runs/x', steps='1')": 'Argument "steps" to "train" has incompatible',
            "shoal.default_config('Pendulum-v1', clip='1')": 'Argument "clip" to "default_config" has incompatible',
            "shoal.make_vec('CartPole-v1', 2, horizon=4)": unexpected.format("horizon", "make_vec"),
            "shoal.make_config(123)": 'Argument 1 to "make_config" has incompatible type "int"',
            "shoal.TorchAgent('CartPole-v1', None, hiden=[64])": unexpected.format("hiden", "TorchAgent"),
        }
        wrong.write_text("import shoal\n" + "\n".join(faults))
        with self.assertRaises(AssertionError) as found:
            check(wrong)
        for line, fault in enumerate(faults.values(), 2):
            self.assertRegex(str(found.exception), rf"wrong\.py:{line}: .*{re.escape(fault)}")

    def test_uninstalling_leaves_nothing(self):  # the last in order
        run(self.python, *PIP, "uninstall", "--yes", "shoal")
        self.assertEqual(list(self.site.glob("shoal*")), [])
        self.assertFalse((self.folder / "venv/bin/shoal").exists())
        self.assertTrue((self.site / "torch").exists())
