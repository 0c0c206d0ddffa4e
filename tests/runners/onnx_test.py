"""ONNX Runtime gives the same numbers as the TorchScript of the same policy. Usage: onnx_test.py SHOAL [unittest arguments]

Exit status 77: onnxruntime is not installed."""

import sys
import unittest

import torch

from program import FolderTest, shoal

try:
    import onnxruntime
except ImportError:
    print("onnxruntime is not installed")
    sys.exit(77)

TYPES = {"tensor(float)": torch.float32, "tensor(double)": torch.float64, "tensor(int64)": torch.int64,
         "tensor(bool)": torch.bool, "tensor(uint8)": torch.uint8}


def random_input(about, n):
    shape, kind = [n, *about.shape[1:]], TYPES[about.type]
    if kind.is_floating_point:
        return torch.randn(shape, dtype=kind)
    return torch.randint(0, 256 if kind == torch.uint8 else 2, shape).to(kind)


class OnnxTest(FolderTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(3)

    def assert_same(self, found, expected, name):
        found = torch.from_numpy(found)
        self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape), name)
        torch.testing.assert_close(found.double(), expected.double(), rtol=1e-5, atol=1e-5, msg=lambda text: f"{name}: {text}")

    def check(self, preset, *settings, steps=1024):
        run = self.dir / f"run{len(list(self.dir.glob('run*')))}"
        shoal("train", preset, "--quiet", "--steps", steps, "--set", "schedule_steps=0", "--set", "stop_return=inf",
              "--out", run, *settings, timeout=200)
        shoal("export", run, "--out", self.dir / "policy.pt", "--out", self.dir / "policy.onnx")
        policy = torch.jit.load(self.dir / "policy.pt")
        session = onnxruntime.InferenceSession(self.dir / "policy.onnx", providers=["CPUExecutionProvider"])
        names = [about.name for about in session.get_outputs()]
        for n in (1, 2, 9):
            inputs = {about.name: random_input(about, n) for about in session.get_inputs()}
            given = {name: tensor.numpy() for name, tensor in inputs.items()}
            found = dict(zip(names, session.run(None, given)))
            greedy = policy(*inputs.values())
            place = names.index("value")
            of_policy = names[:place + 1] + [name for name in names if name.startswith("next_")]
            self.assertEqual(len(greedy), len(of_policy))
            for name, expected in zip(of_policy, greedy):
                self.assert_same(found[name], expected, name)
            about = [name for name in names if name in ("logits", "mean", "std", "values")]
            distribution = policy.distribution(*inputs.values()) if about else []
            for name, expected in zip(about, distribution if isinstance(distribution, tuple) else [distribution]):
                self.assert_same(found[name], expected, name)
            if "sample" not in names:
                continue
            (noise,) = session.get_overridable_initializers()
            self.assertEqual(noise.name, "noise")
            given["noise"] = torch.rand(n, noise.shape[1], generator=torch.Generator().manual_seed(5)).numpy()
            found = dict(zip(names, session.run(None, given)))
            drawn = policy.sample(*inputs.values(), 5)
            self.assert_same(found["sample"], drawn[0], "sample")
            self.assert_same(found["log_prob"], drawn[1], "log_prob")
        return names

    def test_mlp(self):
        self.assertEqual(self.check("cartpole-ppo"), ["action", "value", "logits", "sample", "log_prob"])

    def test_real_numbers_with_normalization(self):
        names = self.check("pendulum-ppo", "--set", "agent.normalize_observation=true", "--set", "agent.squash=true")
        self.assertEqual(names, ["action", "value", "mean", "std", "sample", "log_prob"])

    def test_memory(self):
        for memory in ("lstm", "gru"):
            with self.subTest(memory):
                names = self.check("cartpole-memory-ppo", "--set", f"model.memory={memory}")
                self.assertEqual(names[-1], "next_memory")

    def test_q_networks(self):
        for preset in ("cartpole-dqn", "cartpole-rainbow", "cartpole-r2d1"):
            with self.subTest(preset):
                self.assertEqual(self.check(preset)[:3], ["action", "value", "values"])

    def test_continuous_control(self):
        for preset in ("pendulum-sac", "pendulum-td3"):
            with self.subTest(preset):
                self.check(preset)

    def test_pictures(self):
        self.check("pong-ppo", "--set", "sampler.envs=2", "--set", "sampler.horizon=16", "--workers", 1, steps=32)


if __name__ == "__main__":
    unittest.main(verbosity=2)
