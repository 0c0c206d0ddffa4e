"""Python loads an exported policy and compares it with the parameters of the checkpoint. Usage: export_test.py SHOAL [unittest arguments]"""

import json
import pathlib
import struct
import unittest

import torch

from program import FolderTest, shoal

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "results"


def parameters(checkpoint):
    """The agent's tensors, read without Shoal."""
    data = checkpoint.read_bytes()
    assert data.startswith(b"SHOALCK1")
    (size,) = struct.unpack_from("<Q", data, 8)
    at, tensors = 16 + size, {}
    for entry in json.loads(data[16:at])["tensors"]:
        kind = {"Float": torch.float32, "Double": torch.float64, "Long": torch.int64, "Int": torch.int32, "Byte": torch.uint8,
                "Bool": torch.bool}[entry["type"]]
        count = 1
        for n in entry["shape"]:
            count *= n
        bytes_ = count * torch.empty(0, dtype=kind).element_size()
        if count > 0:
            tensors[entry["name"]] = torch.frombuffer(bytearray(data[at:at + bytes_]), dtype=kind).reshape(entry["shape"])
        at += bytes_
    return {name.removeprefix("agent/"): tensor for name, tensor in tensors.items() if name.startswith("agent/")}


class ExportTest(FolderTest):
    def exported(self, preset, *settings):
        run, policy = self.dir / "run", self.dir / "policy.pt"
        shoal("train", preset, "--quiet", "--steps", 2048, "--set", "schedule_steps=0", "--out", run, *settings)
        self.assertEqual(shoal("export", run, "--out", policy).stdout.split(), [str(policy), str(self.dir / "policy.json")])
        return torch.jit.load(policy), json.loads((self.dir / "policy.json").read_text()), parameters(run / "model.ckpt")

    def test_choices(self):
        policy, about, p = self.exported("cartpole-ppo")
        self.assertEqual(about["inputs"], [{"name": "observation", "dtype": "float32", "shape": ["N", 4]}])
        for n in (1, 50):
            x = torch.randn(n, 4)
            action, value = policy(x)
            h = g = x
            for layer in range(2):
                h = torch.tanh(torch.nn.functional.linear(h, p[f"policy{layer}.weight"], p[f"policy{layer}.bias"]))
                g = torch.tanh(torch.nn.functional.linear(g, p[f"value{layer}.weight"], p[f"value{layer}.bias"]))
            logits = torch.nn.functional.linear(h, p["policy_head.weight"], p["policy_head.bias"])
            self.assertTrue(torch.equal(action, logits.argmax(1)))
            expected = torch.nn.functional.linear(g, p["value_head.weight"], p["value_head.bias"]).squeeze(1)
            torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)

    def test_real_numbers_with_normalization(self):
        policy, about, p = self.exported("pendulum-ppo", "--set", "agent.normalize_observation=true")
        self.assertEqual((about["outputs"][0]["low"], about["outputs"][0]["high"]), (-2, 2))
        x = torch.randn(9, 3) * 3
        h = ((x - p["normalizer/observation/mean"].float()) * (p["normalizer/observation/variance"] + 1e-8).rsqrt().float()).clamp(-10, 10)
        for layer in range(2):
            h = torch.tanh(torch.nn.functional.linear(h, p[f"policy{layer}.weight"], p[f"policy{layer}.bias"]))
        mean = torch.nn.functional.linear(h, p["policy_head.weight"], p["policy_head.bias"])
        torch.testing.assert_close(policy(x)[0], mean.clamp(-1, 1) * 2, rtol=1e-4, atol=1e-4)

    def test_a_network_of_bfloat16_is_exported_in_float32(self):
        if "ALE/Pong-v5" not in shoal("list", "envs").stdout:
            self.skipTest("there are no ROMs")
        self.assertIn("bf16", (RESULTS / "atari-ppo" / "pong-ppo" / "config.toml").read_text())
        file = self.dir / "policy.pt"
        shoal("export", "zoo:pong-ppo", "--out", file)
        _, value = torch.jit.load(file)(torch.zeros(3, 4, 84, 84, dtype=torch.uint8))
        self.assertEqual((value.shape, value.dtype), ((3,), torch.float32))

    def test_weights(self):
        run, file = self.dir / "run", self.dir / "weights.safetensors"
        shoal("train", "cartpole-ppo", "--quiet", "--steps", 512, "--set", "schedule_steps=0", "--out", run)
        self.assertEqual(shoal("export", run, "--out", file).stdout.split(), [str(file)])
        expected = parameters(run / "model.ckpt")
        data = file.read_bytes()
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + size])
        self.assertEqual((8 + size) % 8, 0)
        self.assertIn('id = "CartPole-v1"', header.pop("__metadata__")["config"])
        self.assertEqual(set(header), set(expected))
        for name, entry in header.items():
            self.assertEqual((entry["dtype"], entry["shape"]), ("F32", list(expected[name].shape)))
            begin, end = entry["data_offsets"]
            found = torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]), dtype=torch.float32)
            self.assertTrue(torch.equal(found, expected[name].flatten()), name)
        try:
            import safetensors.torch
        except ImportError:
            return
        for name, tensor in safetensors.torch.load_file(file).items():
            self.assertTrue(torch.equal(tensor, expected[name]), name)

    def test_weights_are_played_as_the_run_is(self):
        run, file = self.dir / "run", self.dir / "weights.safetensors"
        shoal("train", "cartpole-ppo", "--quiet", "--steps", 20000, "--set", "schedule_steps=0",
              "--set", "agent.normalize_observation=true", "--out", run)
        shoal("export", run, "--out", file)
        for flags in [], ["--sample"]:
            results = [shoal("eval", what, "--episodes", 20, "--json", *flags).stdout for what in (run, file)]
            self.assertEqual(*results)
        self.assertIn("zoo:cartpole-ppo ", shoal("zoo").stdout)
        self.assertIn("500.00", shoal("eval", "zoo:cartpole-ppo").stdout)
        again = self.dir / "again.safetensors"
        shoal("export", file, "--out", again)
        self.assertEqual(file.read_bytes(), again.read_bytes())

    def test_mistakes(self):
        (self.dir / "empty.safetensors").write_text("")
        self.assertIn("safetensors", shoal("eval", self.dir / "empty.safetensors", status=2).stderr)
        self.assertIn("the nearest is 'cartpole-ppo'", shoal("eval", "zoo:cartpole-pp", status=2).stderr)
        self.assertIn("checkpoint: found 'best.ckpt'", shoal("play", "zoo:cartpole-ppo", "--checkpoint", "best.ckpt", status=2).stderr)
        self.assertIn("config.toml", shoal("export", self.dir / "none", status=2).stderr)
        run = self.dir / "run"
        shoal("train", "cartpole-ppo", "--quiet", "--steps", 512, "--set", "schedule_steps=0", "--out", run)
        self.assertIn(".onnx", shoal("export", run, "--out", self.dir / "policy.txt", status=2).stderr)
        self.assertIn("/none/policy.pt", shoal("export", run, "--out", "/none/policy.pt", status=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
