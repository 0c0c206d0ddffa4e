"""Settings by their names, and sentences about those that do not fit."""

import inspect
import unittest

import torch

import shoal


class SettingsTest(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def test_says_what_is_wrong(self):
        with self.assertRaisesRegex(shoal.Error, "hiden.*hidden"):
            shoal.ActorCritic("CartPole-v1", model__hiden=[1])
        with self.assertRaisesRegex(shoal.Error, "'minibatch'.*'ppo.minibatches'"):
            shoal.make_config(algo="ppo", minibatch=4)
        for name, setting in ("gamma", "replay.discount"), ("buffer_size", "replay.size"), ("total_timesteps", "steps"):
            with self.assertRaisesRegex(shoal.Error, f"{name}.*the nearest is '{setting}'"):
                shoal.make_config(algo="sac", **{name: 1})
        with self.assertRaisesRegex(shoal.Error, "wibble'; print"):
            shoal.make_config(wibble=1)
        with self.assertRaisesRegex(shoal.Error, "ppo.clip"):
            shoal.make_config(algo="ppo", clip="wide")
        agent = shoal.ActorCritic("CartPole-v1")
        with self.assertRaisesRegex(shoal.Error, "made for ppo, expected dqn"):
            shoal.DQN(agent)
        with self.assertRaisesRegex(shoal.Error, "other spaces"):
            shoal.Sampler("Acrobot-v1", agent, kind="serial")
        with self.assertRaisesRegex(shoal.Error, r"\[3, 5\], expected \[N, 4\]"):
            shoal.Policy(agent).act(torch.zeros(3, 5))
        with self.assertRaisesRegex(TypeError, "callable"):
            shoal.ActorCritic(5)
        with self.assertRaisesRegex(shoal.Error, "'clip' and 'ppo__clip', which are both ppo.clip"):
            shoal.PPO(agent, clip=0.1, ppo__clip=0.2)

    def test_says_what_was_expected_of_another_type(self):
        agent = shoal.ActorCritic("CartPole-v1")
        for act, sentence in {
            lambda: shoal.PPO("CartPole-v1"): "agent: found 'CartPole-v1', expected an agent",
            lambda: shoal.Sampler(None, "CartPole-v1"): "agent: found 'CartPole-v1', expected an agent",
            lambda: shoal.Policy("CartPole-v1"): "agent: found 'CartPole-v1', expected an agent",
            lambda: shoal.TorchAgent("CartPole-v1", 3): "module: found 3, expected a torch.nn.Module",
            lambda: shoal.TorchAgent("CartPole-v1"): "module: found None, expected a torch.nn.Module",
            lambda: shoal.PPO(agent).update(3): "batch: found 3, expected a batch",
            lambda: shoal.Replay(agent): "sampler: found .*, expected a Sampler",
            lambda: shoal.evaluate("runs/cartpole"): "run: found 'runs/cartpole', expected an agent or a run",
        }.items():
            with self.subTest(sentence), self.assertRaisesRegex(TypeError, sentence):
                act()

    def test_settings_that_a_class_does_not_use(self):
        agent = shoal.ActorCritic("CartPole-v1")
        for setting in (
            {"hidden": [3]},
            {"model": "mlp"},
            {"time_limit": 3},
            {"size": 10},
            {"dqn__batch": 3},
            {"workers": 2},
        ):
            with self.assertRaisesRegex(shoal.Error, "which PPO does not use; give those of networks.*to the agent"):
                shoal.PPO(agent, **setting)
        for setting in ({"learning_rate": 9}, {"hidden": [3]}, {"replay__size": 10}):
            with self.assertRaisesRegex(shoal.Error, "which Sampler does not use; give .*learning to the algorithm"):
                shoal.Sampler(None, agent, **setting)
        for setting in ({"device": "cuda"}, {"init_from": "run"}, {"tensorboard": True}, {"stop_return": 3.0}):
            for make in shoal.PPO, lambda *given, **settings: shoal.Sampler(None, *given, **settings):
                with self.assertRaisesRegex(shoal.Error, "does not use"):
                    make(agent, **setting)
        for setting, instead in ({"device": "cuda"}, "agent.to"), ({"init_from": "run"}, "agent.load"):
            with self.assertRaisesRegex(shoal.Error, f"an agent does not use; call {instead}"):
                shoal.ActorCritic("CartPole-v1", **setting)
            with self.assertRaisesRegex(shoal.Error, f"an agent does not use; call {instead}"):
                shoal.TorchAgent("CartPole-v1", torch.nn.Linear(4, 3), **setting)
        with self.assertRaisesRegex(shoal.Error, "algo: found 'a2c', expected 'ppo'"):
            shoal.PPO(agent, algo="a2c")
        self.assertEqual(shoal.Algo(agent, algo="a2c").config.algo, "a2c")
        shoal.PPO(agent, clip=0.2, steps=1000, learning_rate=None)
        shoal.Sampler(None, agent, kind="serial", envs=2, time_limit=9, discount=0.9, seed=2).close()

    def test_settings_of_numpy(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("needs NumPy")
        given = dict(clip=np.float64(0.3), epochs=np.int64(5), hidden=np.array([32, 16]), vtrace=np.bool_(True))
        config = shoal.make_config(algo="ppo", steps=np.array(2048), model__cnn_layers=[np.int32(8), 3, 1], **given)
        expected = dict(clip=0.3, epochs=5, hidden=[32, 16], vtrace=True)
        self.assertEqual(
            config.to_toml(),
            shoal.make_config(algo="ppo", steps=2048, model__cnn_layers=[8, 3, 1], **expected).to_toml(),
        )

    def test_settings_are_documented(self):
        self.assertRegex(shoal.PPO.__doc__, r"\nclip = 0.1: .* \(above 0 .*\)")
        self.assertIn("horizon = 128", shoal.Sampler.__doc__)
        self.assertIn("hidden = ", shoal.Agent.__doc__)
        clip = inspect.signature(shoal.PPO).parameters["clip"]
        self.assertEqual(clip.default, 0.1)
        self.assertEqual(inspect.signature(shoal.Sampler).parameters["horizon"].default, 128)
        self.assertEqual(list(inspect.signature(shoal.Sampler).parameters)[:2], ["env", "agent"])
        self.assertEqual(
            shoal.make_config(algo="ppo", clip=0.3, horizon=7, env__time_limit=5).to_toml().count("clip = 0.3"), 1
        )

    def test_representations_show_shapes(self):
        agent = shoal.ActorCritic("CartPole-v1", hidden=[8])
        spaces = r"ActorCritic\(EnvSpec\(CartPole-v1: ArraySpec\(float32 \[4\]\) -> ActionSpec\(discrete 2\)\)"
        self.assertRegex(repr(agent), spaces + r", algo='ppo', \d+ numbers\)")
        self.assertRegex(repr(shoal.PPO(agent)), r"PPO\(" + spaces + r".*, steps=0\)")
        with shoal.Sampler(None, agent, kind="serial", envs=2, horizon=4) as sampler:
            self.assertEqual(repr(sampler), "Sampler('CartPole-v1', kind=\"serial\", envs=2, workers=0, horizon=4)")
