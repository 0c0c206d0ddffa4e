"""Forks beside threads, torch's and the program's, and beside CUDA."""

import os
import pathlib
import threading
import unittest

from programs import run

import shoal

try:
    from toys import Counter
except ImportError:  # no Gymnasium
    Counter = None

MANY_THREADS = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}


@unittest.skipUnless(Counter, "needs Gymnasium")
class ThreadsTest(unittest.TestCase):
    def test_environments_may_use_torch_beside_its_threads(self):
        done = run(
            """
            import torch, shoal
            from toys import Counter

            torch.set_num_threads(2)
            network = torch.nn.Linear(512, 512)
            network(torch.randn(512, 512))  # OpenMP's threads now wait for the next loop

            class Learning(Counter):
                def reset(self, **options):  # also in the process that reads the spaces
                    network(torch.zeros(256, 512))
                    return super().reset(**options)

                def step(self, action):
                    network(torch.zeros(256, 512)).mean().backward()
                    observation, _, *rest = super().step(action)
                    return observation, float(torch.get_num_threads()), *rest

            agent = shoal.ActorCritic(Learning)
            shape = dict(envs=2, horizon=4, step_limit=20)
            for kind, batch in (("serial", 0), ("parallel-cpu", 0), ("parallel-gpu", 0), ("parallel-gpu", 1)):
                with shoal.Sampler(None, agent, kind=kind, workers=2, dynamic_batch=batch, **shape) as sampler:
                    print(kind, *sampler.collect().reward.unique().tolist())
            with shoal.make_vec(Learning, 1, workers=1, step_limit=20) as envs:
                envs.reset()
                print("vector", *envs.step([0])[1])
            for workers in (0, 1):
                print("evaluation", *shoal.evaluate(agent, episodes=1, workers=workers))
            """,
            env=MANY_THREADS,
        )
        expected = ["serial 2.0", "parallel-cpu 1.0", "parallel-gpu 1.0", "parallel-gpu 1.0", "vector 1.0"]
        self.assertEqual(done.stdout.splitlines(), [*expected, "evaluation 10.0", "evaluation 5.0"], done.stderr)

    def test_samplers_in_a_process_that_torch_was_forked_in(self):
        done = run(
            """
            import os, torch, shoal
            from toys import Counter

            torch.set_num_threads(2)
            torch.rand(2000, 500).exp()
            child = os.fork()
            if child == 0:
                torch.set_num_threads(1)
                agent = shoal.ActorCritic(Counter)
                with shoal.Sampler(None, agent, kind="parallel-gpu", envs=2, workers=1, horizon=4) as sampler:
                    os._exit(sampler.collect().steps)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """,
            env=MANY_THREADS,
        )
        self.assertEqual(done.stdout, "8\n", done.stderr)

    def test_beside_a_cuda_context_nothing_is_forked_that_need_not_be(self):
        libraries = list(pathlib.Path(os.environ["SHOAL_BUILD"]).glob("tests/ipc/libfake_libcuda.so"))
        if not libraries:
            self.skipTest("needs the tests in C++")
        done = run(f"""
            import ctypes, shoal
            from toys import Counter
            ctypes.c_int.in_dll(ctypes.CDLL({str(libraries[0])!r}, ctypes.RTLD_GLOBAL), "fake_active").value = 1
            agent = shoal.ActorCritic(Counter)
            print(shoal.evaluate(agent, episodes=1), len(shoal.Policy(agent).predict([[0, 1]] * 2)))
            with shoal.make_vec(Counter, 2, workers=0) as envs:
                print(envs.reset()[0].shape)
            try:
                shoal.make_vec(Counter, 2, workers=1)
            except shoal.Error as error:
                print("CUDA context" in str(error))
            """)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[1:], ["(2, 2)", "True"], done.stderr)
        self.assertRegex(lines[0], r"^\[[0-9.]+\] 2$")

    def test_other_threads_load_and_evaluate(self):
        agent = shoal.ActorCritic(Counter)
        found = []

        def look():
            for make in (lambda: Counter(7), "gymnasium:CartPole-v1"):
                with shoal.make_vec(make, 2, workers=0) as envs:
                    envs.reset(seed=1)
                    found.append(envs.step([0, 0])[0].shape)
            found.append(shoal.default_config(lambda: Counter(8)).algo)
            found.append(shoal.evaluate(agent, episodes=1))
            try:
                shoal.make_vec(Counter, 2, workers=1)
            except shoal.Error as error:
                found.append("main thread" in str(error))

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 10, found)
        self.assertEqual(found.count((2, 2)), 2)
        self.assertEqual(found.count((2, 4)), 2)
        self.assertEqual(found.count("ppo"), 2)
        self.assertEqual(found.count(True), 2)
