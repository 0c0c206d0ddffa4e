"""Workers of a Python program: they end with it, tell of their exceptions, and let Ctrl-C through."""

import gc
import os
import signal
import textwrap
import threading
import time
import unittest

import torch
from programs import children, run

import shoal

try:
    from toys import Counter
except ImportError:  # no Gymnasium
    Counter = None


def await_end(pids, limit=20):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.01)
    return False


class ProcessesTest(unittest.TestCase):
    def sampler(self, env="CartPole-v1", **settings):
        settings = {"envs": 4, "workers": 2, "horizon": 8, **settings}
        return shoal.Sampler(env, shoal.ActorCritic(env), **settings)

    def test_an_exception_in_a_rollout_ends_the_sampler(self):
        class Failing(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.both, self.left = torch.nn.Linear(4, 3), 3

            def forward(self, observation):
                self.left -= 1
                if self.left == 0:
                    raise ValueError("mine")
                both = self.both(observation)
                return both[:, :2], both[:, 2]

        for kind in ("serial", "parallel-gpu"):
            agent = shoal.TorchAgent("CartPole-v1", Failing())
            with shoal.Sampler(None, agent, kind=kind, envs=2, workers=1, horizon=8) as sampler:
                with self.assertRaisesRegex(ValueError, "mine"):
                    sampler.collect()
                with self.assertRaisesRegex(shoal.Error, "make another sampler"):
                    sampler.collect()

    def test_a_program_that_is_started_after_a_sampler_outlives_this_one(self):
        done = run(
            """
            import os, subprocess, shoal
            def watches_us(pid):
                try:
                    with open(f"/proc/{pid}/comm") as name, open(f"/proc/{pid}/fdinfo/3") as watched:
                        return name.read() == "shoal-reaper\\n" and f"Pid:\\t{os.getpid()}\\n" in watched.read()
                except OSError:
                    return False
            agent = shoal.ActorCritic("CartPole-v1")
            with shoal.Sampler("CartPole-v1", agent, envs=4, workers=2, horizon=8) as sampler:
                sampler.collect()
            own = [pid for pid in os.listdir("/proc") if pid.isdigit() and watches_us(pid)]
            quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            other = subprocess.Popen(["sleep", "60"], start_new_session=True, **quiet)
            print(other.pid, *own)
            """
        )
        other, *reapers = map(int, done.stdout.split())
        self.addCleanup(os.kill, other, signal.SIGKILL)
        self.assertTrue(reapers, done.stderr)
        self.assertTrue(await_end(reapers))
        self.assertTrue(os.path.exists(f"/proc/{other}"))

    def test_close_and_del_and_a_garbage_cycle_end_the_workers(self):
        before = children()
        sampler = self.sampler()
        self.assertEqual(len(children()), len(before) + 2)
        sampler.close()
        self.assertEqual(children(), before)
        sampler.close()
        sampler = self.sampler()
        batch = sampler.collect()
        del sampler, batch
        self.assertEqual(children(), before)
        sampler = self.sampler()
        sampler.itself = sampler
        del sampler
        gc.collect()
        self.assertEqual(children(), before)

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_an_asynchronous_sampler_whose_thread_runs_python_is_dropped(self):
        done = run(
            """
            import shoal
            from toys import Counter
            agent = shoal.ActorCritic(lambda: Counter(length=7))
            for _ in range(6):
                sampler = shoal.Sampler(None, agent, kind="serial", asynchronous=True, envs=4, horizon=16)
                sampler.collect()
                del sampler
            print("done")
            """
        )
        self.assertEqual(done.stdout, "done\n", done.stderr)

    def test_samplers_made_and_dropped_in_a_loop_leave_nothing(self):
        stop, beside = threading.Event(), []

        def work():
            while not stop.is_set():
                torch.ones(200, 200) @ torch.ones(200, 200)

        def rounds(count):
            for i in range(count):
                sampler = self.sampler(kind=("serial", "parallel-gpu", "parallel-cpu")[i % 3])
                batch = sampler.collect()
                if i % 2:
                    sampler.itself = sampler
                del sampler, batch
            gc.collect()
            return children(), len(os.listdir("/proc/self/fd")), threading.active_count()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            beside = rounds(3)
            self.assertEqual(rounds(12), beside)
        finally:
            stop.set()
            thread.join()

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_vector_environments_made_and_dropped_in_a_loop_leave_nothing(self):
        def rounds(count):
            for i in range(count):
                make = "CartPole-v1" if i % 2 else lambda: Counter(4)
                envs = shoal.make_vec(make, 3, workers=i % 4 // 2 * 2)
                envs.reset(seed=1)
                if i % 3 == 0:
                    envs.close()
                elif i % 3 == 1:
                    envs.itself = envs
                del envs
            gc.collect()
            limit = time.monotonic() + 20
            while threading.active_count() > 1 and time.monotonic() < limit:
                time.sleep(0.01)  # threads that answer end by themselves
            return children(), len(os.listdir("/proc/self/fd")), threading.active_count()

        before = rounds(12)
        self.assertEqual(rounds(24), before)
        self.assertEqual(before[2], 1)

    def assert_workers_end_with_the_interpreter(self, program: str) -> None:
        """program: makes four workers and prints their pids."""
        for end in ("", "raise SystemExit(0)", "import os; os._exit(0)"):
            ended = run(textwrap.dedent(program) + end)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""), end)
            pids = [int(each) for each in ended.stdout.split()]
            self.assertEqual(len(pids), 4)
            self.assertTrue(await_end(pids), end)

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_the_end_of_the_interpreter_ends_the_workers_of_vector_environments(self):
        self.assert_workers_end_with_the_interpreter("""
            import shoal
            from programs import children
            from toys import Counter
            envs = [shoal.make_vec(each, 2, workers=2) for each in ("CartPole-v1", lambda: Counter(4))]
            for each in envs:
                each.reset(seed=1)
            envs[1].get_attr("length")
            print(*children(), flush=True)
            """)

    def test_the_end_of_the_interpreter_ends_the_workers(self):
        self.assert_workers_end_with_the_interpreter("""
            import shoal
            from programs import children
            agent = shoal.ActorCritic("CartPole-v1")
            samplers = [shoal.Sampler(None, agent, envs=4, workers=2, horizon=8) for _ in range(2)]
            batches = [each.collect() for each in samplers]
            print(*children(), flush=True)
            """)

    def test_samplers_are_made_beside_threads(self):
        torch.set_num_threads(2)
        stop = threading.Event()
        rounds = [0]

        def work():
            while not stop.is_set():
                torch.ones(300, 300) @ torch.ones(300, 300)
                rounds[0] += 1

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for kind in ("parallel-gpu", "parallel-cpu"):
                with self.sampler(kind=kind) as sampler:
                    sampler.collect()
                    before = rounds[0]
                    while rounds[0] == before:  # collect() lets other threads run
                        sampler.collect()
        finally:
            stop.set()
            thread.join()
            torch.set_num_threads(1)

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_environments_in_python_beside_threads(self):
        stop = threading.Event()

        def work():
            while not stop.is_set():
                sum(range(1000))  # holds the GIL, and passes it on

        thread = threading.Thread(target=work)
        thread.start()
        length = 3  # a closure
        try:
            for kind in ("serial", "parallel-gpu", "parallel-cpu"):
                with self.sampler(lambda: Counter(length), kind=kind) as sampler:
                    batch = sampler.collect()
                    self.assertEqual(batch.observation[:, 0, 0].tolist(), [0, 1, 2] * 3)
        finally:
            stop.set()
            thread.join()

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_an_exception_comes_with_its_traceback_worker_and_environment(self):
        def fail(steps):
            if steps == 2:
                raise RuntimeError("the gripper is stuck")

        with self.sampler(lambda: Counter(5, fail)) as sampler, self.assertRaises(shoal.WorkerError) as caught:
            sampler.collect()
        text = str(caught.exception)
        self.assertIn("the gripper is stuck", text)
        self.assertIn("test_processes.py", text)
        self.assertIn("in fail", text)
        self.assertEqual(caught.exception.step, 2)
        self.assertIn(caught.exception.env, range(4))
        self.assertIn(caught.exception.worker, (0, 1))

    def test_a_killed_worker_is_an_error(self):
        with self.sampler() as sampler:
            sampler.collect()
            os.kill(children()[-1], signal.SIGKILL)
            with self.assertRaisesRegex(shoal.WorkerError, "SIGKILL"):
                sampler.collect()

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_ctrl_c_interrupts_a_step_that_takes_long(self):
        ended = run("""
            import os, signal, threading, time
            import shoal
            from programs import children
            from toys import Counter
            begun, begins = os.pipe()

            def block(steps):
                os.write(begins, b"x")
                time.sleep(3600)

            make = lambda: Counter(5, block)
            agent = shoal.ActorCritic(make)
            sampler = shoal.Sampler(make, agent, kind="parallel-gpu", envs=2, workers=2, horizon=8)

            def press():
                os.read(begun, 1)
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=press).start()
            try:
                sampler.collect()
            except KeyboardInterrupt:
                print("interrupted")
            try:
                sampler.collect()
            except shoal.Error as error:
                print("make another sampler" in str(error))
            sampler.close()
            print(children())
            """)
        self.assertEqual((ended.returncode, ended.stdout), (0, "interrupted\nTrue\n[]\n"), ended.stderr)

    def test_ctrl_c_between_two_rollouts_leaves_the_sampler_usable(self):
        with self.sampler() as sampler:
            with self.assertRaises(KeyboardInterrupt):
                while True:
                    sampler.collect()
                    signal.raise_signal(signal.SIGINT)
            self.assertEqual(sampler.collect().steps, 32)

    def test_ctrl_c_after_two_threads_have_collected(self):
        ended = run("""
            import os, signal, threading, shoal
            agents = [shoal.ActorCritic("CartPole-v1") for _ in range(2)]
            samplers = [shoal.Sampler(None, each, envs=4, workers=2, horizon=8) for each in agents]
            def collect(sampler):
                for _ in range(100):
                    sampler.collect()
            threads = [threading.Thread(target=collect, args=(each,)) for each in samplers]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            try:
                os.kill(os.getpid(), signal.SIGINT)
                samplers[0].collect()
            except KeyboardInterrupt:
                print("interrupted")
            """)
        self.assertEqual((ended.returncode, ended.stdout), (0, "interrupted\n"), ended.stderr)

    def test_closing_waits_for_a_thread_that_collects(self):
        errors = []
        with self.sampler() as sampler:
            collected = threading.Event()

            def collect():
                try:
                    while True:
                        sampler.collect()
                        collected.set()
                except shoal.Error as error:
                    errors.append(str(error))

            thread = threading.Thread(target=collect)
            thread.start()
            collected.wait(60)
        thread.join(60)
        self.assertEqual(errors, ["the sampler is closed"])

    def test_one_thread_at_a_time_uses_an_agent(self):
        ended = run("""
            import threading, torch, shoal
            agent = shoal.ActorCritic("CartPole-v1")
            algo, policy = shoal.PPO(agent, epochs=1), shoal.Policy(agent)
            samplers = [shoal.Sampler(None, agent, envs=4, workers=2, horizon=64) for _ in range(2)]
            over = threading.Event()
            def act():
                while not over.is_set():
                    policy.act(torch.zeros(3, 4))
            def evaluate():
                while not over.is_set():
                    shoal.evaluate(agent, episodes=2)
            def learn(sampler):
                for _ in range(40):
                    algo.update(sampler.collect())
            others = [threading.Thread(target=each) for each in (act, evaluate)]
            learners = [threading.Thread(target=learn, args=(each,)) for each in samplers]
            for each in others + learners:
                each.start()
            for each in learners:
                each.join()
            over.set()
            for each in others:
                each.join()
            print(algo.steps)
            """)
        self.assertEqual((ended.returncode, ended.stdout), (0, f"{2 * 40 * 4 * 64}\n"), ended.stderr)

    def test_a_forked_process_does_not_wait_for_threads_of_its_parent(self):
        ended = run("""
            import os, threading, torch, shoal
            held, go_on = threading.Event(), threading.Event()
            class Module(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = torch.nn.Linear(4, 3)
                def forward(self, observation):
                    if threading.current_thread() is not threading.main_thread():
                        held.set()
                        go_on.wait(60)
                    both = self.body(observation)
                    return both[..., :2], both[..., 2]
            agent = shoal.TorchAgent("CartPole-v1", Module())
            thread = threading.Thread(target=lambda: shoal.Policy(agent).act(torch.zeros(1, 4)))
            thread.start()
            held.wait(60)
            child = os.fork()
            if child == 0:
                shoal.Policy(agent).act(torch.zeros(1, 4))
                os._exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            go_on.set()
            thread.join()
            """)
        self.assertEqual((ended.returncode, ended.stdout), (0, "7\n"), ended.stderr)

    def test_the_program_ends_while_a_thread_collects(self):
        ended = run("""
            import threading, shoal
            agent = shoal.ActorCritic("CartPole-v1")
            sampler = shoal.Sampler(None, agent, envs=4, workers=2, horizon=8)
            collected = threading.Event()
            def collect():
                while True:
                    sampler.collect()
                    collected.set()
            threading.Thread(target=collect, daemon=True).start()
            collected.wait()
            """)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_a_forked_process_neither_uses_nor_ends_the_workers(self):
        ended = run("""
            import os, sys, shoal
            agent = shoal.ActorCritic("CartPole-v1")
            sampler = shoal.Sampler(None, agent, envs=4, workers=2, horizon=8)
            envs = shoal.make_vec("CartPole-v1", 2, workers=2)
            envs.reset()
            for ends in (False, True):
                child = os.fork()
                if child == 0:
                    for use in (sampler.collect, lambda: envs.step([0, 0])):
                        try:
                            use()
                        except shoal.Error as error:
                            print(str(error).split(" belongs")[0], flush=True)
                    if ends:
                        sampler.close(), envs.close()
                    sys.exit()
                assert os.waitpid(child, 0)[1] == 0
                print(sampler.collect().steps, envs.step([0, 0])[1].tolist(), flush=True)
            """)
        seen = "the sampler\nthe vector environment\n32 [1.0, 1.0]\n"
        self.assertEqual((ended.returncode, ended.stdout), (0, 2 * seen), ended.stderr)

    def test_ctrl_c_ends_an_evaluation(self):
        for workers in (0, 2):
            ended = run(f"""
                import os, signal, threading, shoal
                agent = shoal.ActorCritic("CartPole-v1", steps=1000)
                threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    shoal.evaluate(agent, episodes=10**8, workers={workers})
                except KeyboardInterrupt:
                    print("interrupted")
                """)
            self.assertEqual((ended.returncode, ended.stdout), (0, "interrupted\n"), ended.stderr)

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_ctrl_c_before_training_begins(self):
        ended = run("""
            import os, signal, tempfile, shoal
            from toys import Counter
            def make():
                os.kill(os.getpid(), signal.SIGINT)
                return Counter(5)
            out = os.path.join(tempfile.mkdtemp(), "run")
            try:
                shoal.train(env=make, algo="ppo", out=out, steps=10**8, quiet=True, kind="serial")
            except KeyboardInterrupt:
                print("interrupted", os.path.exists(out))
            """)
        self.assertEqual((ended.returncode, ended.stdout), (0, "interrupted False\n"), ended.stderr)

    @unittest.skipUnless(Counter, "needs Gymnasium")
    def test_ctrl_c_while_environments_are_made(self):
        vector = "make_vec(make, 2, workers=2)"  # which makes two before those of the workers
        for makes, made in ("ActorCritic(make)", 0), (vector, 0), (vector, 2):
            ended = run(f"""
                import os, signal, threading, time
                import shoal
                from programs import children
                from toys import Counter
                begun, begins = os.pipe()
                tokens, gives = os.pipe()
                os.set_blocking(tokens, False)
                os.write(gives, bytes({made}))

                def make():
                    try:
                        os.read(tokens, 1)
                    except BlockingIOError:
                        os.write(begins, b"x")
                        time.sleep(3600)
                    return Counter()

                def press():
                    os.read(begun, 1)
                    os.kill(os.getpid(), signal.SIGINT)

                threading.Thread(target=press).start()
                try:
                    shoal.{makes}
                except KeyboardInterrupt:
                    print("interrupted", children())
                """)
            self.assertEqual((ended.returncode, ended.stdout), (0, "interrupted []\n"), f"{makes}: {ended.stderr}")

    def test_workers_are_forked_in_the_main_thread(self):
        errors = []

        def make():
            try:
                self.sampler()
            except shoal.Error as error:
                errors.append(str(error))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        self.assertIn("main thread", errors[0])
