"""examples/ray_serve: right answers, refusals, and no request lost when a replica is killed under load.
Needs Ray Serve (scripts/requirements-serve.txt)."""

import asyncio
import io
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest

import numpy as np
import ray
import requests
import serving
import tenon
from ray import serve

EXAMPLE = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / "examples/ray_serve"
sys.path.insert(0, str(EXAMPLE))
import deployment  # noqa: E402
import load  # noqa: E402

URL = "http://127.0.0.1:8765/"


def packed(array):
    body = io.BytesIO()
    np.save(body, array)
    return body.getvalue()


def replicas(application="default"):
    """The actors that are replicas of the model."""
    actors = ray.util.list_named_actors(all_namespaces=True)
    return [actor for actor in actors if actor["name"].startswith(f"SERVE_REPLICA::{application}#Model#")]


def kill(actor):
    ray.kill(ray.get_actor(actor["name"], actor["namespace"]), no_restart=False)


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(cls.folder.name)
        (path / "net.tn").write_text(serving.NETWORK)
        tenon.compile(path / "net.tn", target="cpu:generic").save(path / "net")
        environment = {"PYTHONPATH": os.pathsep.join([str(EXAMPLE), os.environ["PYTHONPATH"]])}
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": environment})
        serve.start(http_options={"host": "127.0.0.1", "port": 8765})
        serve.run(deployment.application({"model": str(path / "net"), "replicas": "2"}))
        # Requests wait in its one replica for others to join, long enough to kill it meanwhile.
        slow = deployment.application({"model": str(path / "net"), "wait_ms": "4000"})
        serve.run(slow, name="slow", route_prefix="/slow")

    @classmethod
    def tearDownClass(cls):
        serve.shutdown()
        ray.shutdown()
        cls.folder.cleanup()

    def test_answers(self):
        x = np.array([[1, -2, 3, 0.5]], "f4")
        answer = requests.post(URL, packed(x), timeout=30)
        self.assertEqual(answer.status_code, 200, answer.text)
        np.testing.assert_array_equal(np.load(io.BytesIO(answer.content)), np.maximum(x, 0) ** 2)
        body = io.BytesIO()
        np.savez(body, x=x)
        answer = requests.post(URL, body.getvalue(), timeout=30)
        np.testing.assert_array_equal(np.load(io.BytesIO(answer.content))["y"], np.maximum(x, 0) ** 2)

    def test_refusals(self):
        for body, reason in ((packed(np.zeros((1, 5), "f4")), "input 'x': expected float32 of shape (1, 4)"),
                             (packed(np.zeros((1, 4))), "found float64"), (b"hello", "numpy.save")):  # fmt: skip
            answer = requests.post(URL, body, timeout=30)
            self.assertEqual(answer.status_code, 400)
            self.assertIn(reason, answer.text)
        self.assertEqual(requests.get(URL, timeout=30).status_code, 405)

    def test_requests_at_once_are_not_mixed_up(self):
        def is_right(k):
            x = np.full((1, 4), k, "f4")
            answer = requests.post(URL, packed(x), timeout=30)
            return answer.status_code == 200 and np.array_equal(np.load(io.BytesIO(answer.content)), x * x)

        self.assertEqual(serving.wrong_at_once(is_right), [])

    def test_requests_in_a_replica_that_dies_go_to_another(self):
        def one(k):
            answer = requests.post(URL + "slow", packed(np.full((1, 4), k, "f4")), timeout=120)
            answers[k] = answer.status_code, answer.content

        answers = {}
        threads = [threading.Thread(target=one, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(2)
        self.assertEqual(answers, {}, "they should be waiting")
        [before] = replicas("slow")
        kill(before)
        for thread in threads:
            thread.join()
        for k, (status, content) in answers.items():
            self.assertEqual(status, 200, content)
            np.testing.assert_array_equal(np.load(io.BytesIO(content)), np.full((1, 4), k * k, "f4"))
        self.assertNotIn(before, replicas("slow"))

    def test_no_request_is_lost_when_replicas_die(self):
        def kill_two():
            for _ in range(2):
                time.sleep(2)
                actor = replicas()[0]
                killed.append(actor["name"])
                kill(actor)

        x = np.array([[1, -2, 3, 0.5]], "f4")
        deadline = time.monotonic() + 120
        while True:  # until the server is awake
            start = time.monotonic()
            requests.post(URL, packed(x), timeout=60)
            if time.monotonic() - start < 1:
                break
            self.assertLess(start, deadline, "the server stays slow")
        killed = []
        killer = threading.Thread(target=kill_two)
        killer.start()
        results = asyncio.run(load.load(URL, packed(x), 60, 7, np.maximum(x, 0) ** 2))
        killer.join()
        print(load.summary(results, 7), file=sys.stderr)
        self.assertEqual(len(set(killed)), 2)
        self.assertEqual(len(results), 420)
        self.assertEqual([why for kind, why in results if kind == "lost"], [])
        self.assertGreater(sum(1 for kind, _ in results if kind == "done"), 350)
        deadline = time.monotonic() + 60
        while set(killed) & {actor["name"] for actor in replicas()} or len(replicas()) < 2:
            self.assertLess(time.monotonic(), deadline, "the killed replicas were not replaced")
            time.sleep(0.5)


if __name__ == "__main__":
    unittest.main()
