"""torch.compile(module, backend="tenon"), and modules as models. Needs torch, which the project's requirements do
not have (it is larger than all the rest together): TENON_PYTHON_CHECKS names an interpreter with torch, onnx,
onnxscript and ml_dtypes, and run.py is told `torch`."""

import unittest
import warnings

import tenon
import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


class Torch(unittest.TestCase):
    def setUp(self):
        self.enterContext(torch.no_grad())
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.network = Network().eval()

    def quietly(self, module, *arguments):
        """A call without a warning of Tenon's: nothing runs in torch."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            result = module(*arguments)
        self.assertEqual([str(w.message) for w in told if "tenon" in str(w.message)], [])
        return result

    def test_a_module_is_a_model(self):
        x = torch.randn(2, 3, 8, 8)
        module = tenon.compile(self.network, example_inputs=(x,))
        found = module(x)
        self.assertIsInstance(found, torch.Tensor)
        close(found, self.network(x))
        close(torch.from_numpy(module(x.numpy())), self.network(x))
        with self.assertRaisesRegex(tenon.TenonError, "needs example_inputs"):
            tenon.compile(self.network)

    def test_nothing_is_copied(self):
        x = torch.randn(2, 3, 8, 8)
        port = tenon.compile(self.network, example_inputs=(x,)).inputs[0]
        self.assertEqual(tenon.arrays.read_input(port, x).address, x.data_ptr())

    def test_backend(self):
        compiled = torch.compile(self.network, backend="tenon")
        for seed in range(2):
            x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
            close(self.quietly(compiled, x), self.network(x))

    def test_changed_parameters_count(self):
        compiled, x = torch.compile(self.network, backend="tenon"), torch.randn(1, 3, 8, 8)
        close(self.quietly(compiled, x), self.network(x))
        self.network.head.bias.add_(1)
        close(self.quietly(compiled, x), self.network(x))

    def test_dynamic_batch(self):
        compiled = torch.compile(self.network, backend="tenon", dynamic=True)
        built = []
        original = tenon.toolchain.build_library
        tenon.toolchain.build_library = lambda *a: (built.append(a), original(*a))
        try:
            for count in (5, 6, 8, 7):
                x = torch.randn(count, 3, 8, 8)
                close(self.quietly(compiled, x), self.network(x))
        finally:
            tenon.toolchain.build_library = original
        self.assertLessEqual(len(built), 1)

    def test_graph_breaks(self):
        class Broken(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                y = torch.relu(self.first(x))
                torch._dynamo.graph_break()
                return self.second(y), y

        module, x = Broken().eval(), torch.randn(3, 4)
        for found, expected in zip(self.quietly(torch.compile(module, backend="tenon"), x), module(x)):
            close(found, expected)

    def test_a_refused_subgraph_runs_in_torch(self):
        def function(x):
            y = torch.relu(x) + 1
            torch._dynamo.graph_break()
            return torch.linalg.svdvals(y)

        x = torch.randn(3, 3)
        with self.assertWarnsRegex(UserWarning, r"tenon: torch runs the subgraph .*\(\d+ operations\): "):
            found = torch.compile(function, backend="tenon")(x)
        close(found, function(x))

    def test_gradients_run_in_torch(self):
        with torch.enable_grad(), self.assertWarnsRegex(UserWarning, "gradients"):
            torch.compile(self.network, backend="tenon")(torch.randn(1, 3, 8, 8)).sum().backward()
        self.assertIsNotNone(self.network.head.bias.grad)

    def test_changed_inputs_run_in_torch(self):
        def function(x):
            return x.add_(1) * 2

        with self.assertWarnsRegex(UserWarning, "in place"):
            x = torch.zeros(3)
            close(torch.compile(function, backend="tenon")(x), torch.full((3,), 2.0))
        close(x, torch.ones(3))


if __name__ == "__main__":
    unittest.main()
