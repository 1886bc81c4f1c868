"""examples/triton: Triton Inference Server itself, with its Python backend, on the processor: right answers, errors of
one request alone, batches, a load at a bounded rate, and an instance that dies.
Needs NVIDIA's wheel of the server (scripts/requirements-triton.txt)."""

import asyncio
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
import unittest

import numpy as np
import requests
import serving
import tenon

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "examples/triton"), str(SOURCE / "examples/ray_serve")]
import load  # noqa: E402
import repository  # noqa: E402


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def backends(folder):
    """The wheel's backends, with the stub of this Python's version in its place; the server and its libraries."""
    server = pathlib.Path(importlib.util.find_spec("pytriton").origin).parent / "tritonserver"
    shutil.copytree(server / "backends", folder / "backends")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(server / "python_backend_stubs" / version / "triton_python_backend_stub", folder / "backends/python")
    return server / "bin/tritonserver", server.parents[1] / "nvidia_pytriton.libs"


def stubs(server):
    """Processes of the Python backend that belong to the server: one for each instance of a model."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if command[0].endswith(b"triton_python_backend_stub") and parent == server.pid:
            found.append(int(entry.name))
    return sorted(found)


def probe(url):
    """What kserve.yaml's liveness probe answers for a server at `url`."""
    text = (SOURCE / "examples/triton/kserve.yaml").read_text()
    _, found, code = text.partition("              - |\n")
    assert found and "http://127.0.0.1:8080" in code
    code = textwrap.dedent(code).replace("http://127.0.0.1:8080", url)
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode


class Triton(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(cls.folder.name)
        (path / "net.tn").write_text(serving.NETWORK)
        cls.module = tenon.compile(path / "net.tn", target="cpu:generic")
        cls.module.save(path / "net")
        repository.write(path / "net", path / "models", "net", instances=2)
        tenon.compile(SOURCE / "examples/digits/digits.onnx", target="cpu:native").save(path / "digits")
        repository.write(path / "digits", path / "models", "digits")
        program, libraries = backends(path)
        # The stub takes packages from where this Python does, which it looks for on the path, and its library.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                       "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
                       "LD_LIBRARY_PATH": f"{libraries}:{sysconfig.get_config_var('LIBDIR')}"}  # fmt: skip
        cls.port = free_port()
        cls.url = f"http://127.0.0.1:{cls.port}"
        cls.log = open(path / "log", "w+")
        cls.server = subprocess.Popen([program, f"--model-repository={path / 'models'}", f"--backend-directory={path / 'backends'}",
                                       f"--http-port={cls.port}", "--http-address=127.0.0.1", "--allow-grpc=false", "--allow-metrics=false",
                                       f"--backend-config=python,shm-region-prefix-name=tenon{os.getpid()}"],
                                      env=environment, stdout=cls.log, stderr=subprocess.STDOUT)  # fmt: skip
        for _ in range(600):
            try:
                if requests.get(f"{cls.url}/v2/health/ready", timeout=5).status_code == 200:
                    return
            except requests.ConnectionError:
                pass
            if cls.server.poll() is not None:
                break
            time.sleep(0.1)
        cls.log.seek(0)
        said = cls.log.read()
        cls.tearDownClass()
        raise RuntimeError(f"the server is not ready:\n{said}")

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()  # it would wait for instances, dead ones too
        cls.server.wait(30)
        for left in pathlib.Path("/dev/shm").glob(f"tenon{os.getpid()}*"):
            left.unlink()
        cls.log.close()
        cls.folder.cleanup()

    def ask(self, model, name, array):
        return requests.post(f"{self.url}/v2/models/{model}/infer", load.v2_request(name, array), timeout=30)

    def test_answers(self):
        x = np.array([[1, -2, 3, 0.5]], "f4")
        answer = self.ask("net", "x", x)
        self.assertEqual(answer.status_code, 200, answer.text)
        np.testing.assert_array_equal(load.v2_answer(answer.content), np.maximum(x, 0) ** 2)
        image = np.random.default_rng(0).uniform(0, 16, (1, 1, 8, 8)).astype("f4")
        answer = self.ask("digits", "image", image)
        self.assertEqual(answer.status_code, 200, answer.text)
        expected = tenon.compile(SOURCE / "examples/digits/digits.onnx", "interpreter")(image)
        np.testing.assert_allclose(load.v2_answer(answer.content), expected, rtol=1e-4, atol=1e-6)

    def test_what_the_server_says_of_the_model(self):
        config = requests.get(f"{self.url}/v2/models/net/config", timeout=30).json()
        self.assertEqual((config["max_batch_size"], config["input"][0]["dims"], config["input"][0]["data_type"]), (8, [4], "TYPE_FP32"), config)
        self.assertEqual([g["count"] for g in config["instance_group"]], [2])
        described = requests.get(f"{self.url}/v2/models/digits", timeout=30).json()
        self.assertEqual(described["inputs"], [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8]}])

    def test_refusals(self):
        for x, reason in ((np.zeros((1, 5), "f4"), "shape"), (np.zeros((1, 4)), "FP64"), (np.zeros((9, 4), "f4"), "batch")):
            answer = self.ask("net", "x", x)
            self.assertEqual(answer.status_code, 400, answer.text)
            self.assertIn(reason, answer.text)

    def test_requests_at_once_are_not_mixed_up(self):
        def is_right(k):
            x = np.full((1 + k % 3, 4), k, "f4")
            answer = self.ask("net", "x", x)
            return answer.status_code == 200 and np.array_equal(load.v2_answer(answer.content), x * x)

        self.assertEqual(serving.wrong_at_once(is_right), [])
        statistics = requests.get(f"{self.url}/v2/models/net/stats", timeout=30).json()["model_stats"][0]
        self.assertLess(statistics["execution_count"], statistics["inference_count"], "no requests were joined")

    def test_load(self):
        """At bounded rates, each answered and right."""
        x = np.array([[1, -2, 3, 0.5]], "f4")
        body, seconds = load.v2_request("x", x), 4
        start = time.perf_counter()
        for _ in range(1000):
            self.module(x)
        print(f"the module alone {time.perf_counter() - start:.3f} ms a call", file=sys.stderr)
        for rate in (50, 100, 200):
            answers = load.load(f"{self.url}/v2/models/net/infer", body, rate, seconds, np.maximum(x, 0) ** 2, load.v2_answer)
            results = asyncio.run(answers)
            print(load.summary(results, seconds), file=sys.stderr)
            self.assertEqual([why for kind, why in results if kind != "done"], [])

    def test_zz_an_instance_that_dies(self):
        """Last: the server is another one after it. Its requests fail, those of others are answered, and the
        server calls the model ready all the same: a probe has to ask for an inference."""
        before = stubs(self.server)
        self.assertEqual(len(before), 3)
        self.assertEqual(probe(self.url), 0)
        command = {p: pathlib.Path(f"/proc/{p}/cmdline").read_bytes() for p in before}
        for model in (b"/net/", b"/digits/"):
            os.kill(next(p for p in before if model in command[p]), signal.SIGKILL)
        self.assertEqual(probe(self.url), 1)
        x = np.array([[1, -2, 3, 0.5]], "f4")
        answers = [self.ask("net", "x", x) for _ in range(40)]
        right = [a for a in answers if a.status_code == 200]
        for a in right:
            np.testing.assert_array_equal(load.v2_answer(a.content), np.maximum(x, 0) ** 2)
        self.assertEqual(requests.get(self.url + "/v2/models/net/ready", timeout=5).status_code, 200, "the server notices now: say so in README.md")
        print(f"{len(right)} of 40 answered with one of two instances, the others: "
              f"{ {a.status_code for a in answers if a.status_code != 200} }", file=sys.stderr)  # fmt: skip
        self.assertTrue(right)


if __name__ == "__main__":
    unittest.main()
