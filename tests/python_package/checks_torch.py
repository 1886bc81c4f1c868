"""torch.compile(module, backend="tenon"), and modules as models. Needs torch, which the project's requirements do
not have (it is larger than all the rest together): TENON_PYTHON_CHECKS names an interpreter with torch, onnx,
onnxscript and ml_dtypes, and run.py is told `torch`."""

import copy
import unittest
import warnings
from unittest import mock

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

    def test_tensors_that_do_not_fit(self):
        module = tenon.compile(torch.nn.ReLU(), "interpreter", example_inputs=torch.zeros(3))
        x = torch.tensor([1.0, -2.0, 3.0])
        close(module(torch._neg_view(x)), torch.relu(-x))
        for given, words in [(x.double(), r"expected elements of float32, found float64; pass it as x.to\(torch.float32\)"),
                             (x.to("meta"), "gives no DLPack array"), (x.to_sparse(), "gives no DLPack array")]:  # fmt: skip
            with self.assertRaisesRegex(tenon.InputError, words):
                module(given)

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
        why = r"tenon: torch runs the subgraph .*\(\d+ operations?\): torch cannot export the graph to ONNX: "
        with self.assertWarnsRegex(UserWarning, why):
            found = torch.compile(function, backend="tenon")(x)
        close(found, function(x))

    def test_gradients_run_in_torch(self):
        with torch.enable_grad(), self.assertWarnsRegex(UserWarning, "gradients"):
            torch.compile(self.network, backend="tenon")(torch.randn(1, 3, 8, 8)).sum().backward()
        self.assertIsNotNone(self.network.head.bias.grad)

    def test_what_is_changed_in_place(self):
        class Cache(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("rows", torch.zeros(8, 4))
                self.register_buffer("count", torch.zeros((), dtype=torch.long))

            def forward(self, x, at):
                self.rows[at] = x
                self.count += 1
                x.mul_(2)
                return self.rows.softmax(-1), x.t()

        one, other, calls = Cache(), Cache(), []
        compiled, original = torch.compile(one, backend="tenon"), tenon.dynamo.compile
        with mock.patch.object(tenon.dynamo, "compile", lambda *a, **k: calls.append(a) or original(*a, **k)):
            for at in (torch.tensor([2]), torch.tensor([5])):
                x = torch.randn(1, 4)
                y = x.clone()
                for found, expected in zip(self.quietly(compiled, x, at), other(y, at)):
                    close(found, expected)
                close(x, y)
        close(one.rows, other.rows)
        self.assertEqual(one.count.item(), 2)
        self.assertEqual(len(calls), 1)  # new values of a buffer make no new module

    def test_statistics_of_a_batch(self):
        other = copy.deepcopy(self.network)
        compiled, x = torch.compile(self.network.train(), backend="tenon"), torch.randn(4, 3, 8, 8)
        close(self.quietly(compiled, x), other.train()(x))
        close(self.network.norm.running_var, other.norm.running_var)

    def test_arguments_that_overlap(self):
        def function(x, y):
            x.add_(1)
            return x * y

        x = torch.randn(4)
        expected = function(*[x.clone()] * 2)
        compiled = torch.compile(function, backend="tenon")
        compiled(x.clone(), x.clone())
        close(compiled(x, x), expected)

    def test_views_of_inputs_stay_views(self):
        x = torch.randn(2, 3)
        view, _ = self.quietly(torch.compile(lambda x: (x.t()[1:], x * 2), backend="tenon"), x)
        close(view, x.t()[1:])
        view[0, 0] = 7
        self.assertEqual(x[0, 1].item(), 7)

    def test_convolutions_of_three_dimensions(self):
        x = torch.randn(1, 2, 5, 6, 7)
        for words in ({"bias": False}, {"padding": (0, 1, 2), "stride": 2}, {"padding": "same", "groups": 2}):
            torch._dynamo.reset()
            layer = nn.Conv3d(2, 4, 3, **words).eval()
            close(self.quietly(torch.compile(layer, backend="tenon"), x), layer(x))

    def test_layers_that_torch_keeps_as_one_operator(self):
        x, hidden = torch.randn(2, 5, 32), torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], dtype=torch.bool)
        for norm_first in (False, True):
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first).eval()
            for words in ({}, {"src_key_padding_mask": hidden}, {"src_mask": torch.ones(5, 5).triu(1).bool()}):
                torch._dynamo.reset()
                compiled = torch.compile(layer, backend="tenon")
                close(self.quietly(lambda x: compiled(x, **words), x), layer(x, **words))
        attention = nn.MultiheadAttention(32, 4, batch_first=True).eval()
        for words in ({"key_padding_mask": hidden}, {"need_weights": False}, {"average_attn_weights": False}):
            torch._dynamo.reset()
            compiled = torch.compile(attention, backend="tenon")
            for found, expected in zip(self.quietly(lambda x: compiled(x, x, x, **words), x), attention(x, x, x, **words)):
                self.assertEqual(found is None, expected is None)
                if expected is not None:
                    close(found, expected)

    def test_bfloat16_keeps_its_norms(self):
        network, x = self.network.bfloat16(), torch.randn(2, 3, 8, 8).bfloat16()
        found = self.quietly(torch.compile(network, backend="tenon"), x)
        torch.testing.assert_close(found, network(x), rtol=3e-2, atol=2e-2)


if __name__ == "__main__":
    unittest.main()
