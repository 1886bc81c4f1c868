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

    def test_extents_that_cannot_stay_open(self):
        original = tenon.dynamo.compile

        def refusing(*given, **options):
            if "ranges" in options:
                raise tenon.TenonError("not open")
            return original(*given, **options)

        compiled = torch.compile(lambda x: x * 2, backend="tenon", dynamic=True)
        with mock.patch.object(tenon.dynamo, "compile", refusing):
            for count in (3, 4):  # below the same power of two
                x = torch.randn(count, 2)
                close(self.quietly(compiled, x), x * 2)

    def modules_of(self, function, calls):
        """How many modules these calls need, each of which is compared."""
        made, original = [], tenon.dynamo.compile
        compiled = torch.compile(function, backend="tenon")
        with mock.patch.object(tenon.dynamo, "compile", lambda *a, **k: made.append(a) or original(*a, **k)):
            for call in calls:
                close(compiled(*call), function(*call))
        return len(made)

    def test_whole_numbers_are_inputs(self):
        x = torch.randn(9)
        # One for the first, which torch takes for a constant; one for all others.
        self.assertEqual(self.modules_of(lambda x, n: x[:n] * n, [(x, n) for n in (2, 3, 5, 7)]), 2)

    def test_other_numbers_make_few_modules(self):
        x = torch.randn(4)
        with mock.patch.object(torch._dynamo.config, "recompile_limit", 2), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.assertEqual(self.modules_of(lambda x, n: x * n, [(x, n + 0.5) for n in range(6)]), 3)
        self.assertEqual(sum("its numbers are others from call to call" in str(w.message) for w in told), 1)

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

    def test_a_warning_comes_once(self):
        compiled, x = torch.compile(self.network, backend="tenon"), torch.randn(1, 3, 8, 8)
        with torch.enable_grad(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(3):
                compiled(x)
        self.assertEqual(sum("gradients" in str(w.message) for w in told), 1)

    def test_complex_numbers_run_in_torch(self):
        x = torch.randn(3, dtype=torch.complex64)
        with self.assertWarnsRegex(UserWarning, "takes float32 of rank 2, the captured one complex64 of rank 1"):
            close(torch.compile(lambda x: x * 2, backend="tenon")(x), x * 2)

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

    def test_views_of_inputs_that_lie_elsewhere(self):
        rows, compiled = torch.randn(9, 3, 3), torch.compile(lambda x: (x[1].t(), x + 1), backend="tenon")
        for start in (2, 6):
            close(self.quietly(compiled, rows[start : start + 2])[0], rows[start + 1].t())

    def test_views_with_open_extents(self):
        compiled = torch.compile(lambda x: (x.reshape(x.shape[0] * 3, -1), x + 1, x.shape[0]), backend="tenon", dynamic=True)
        for count in (2, 5):
            x = torch.randn(count, 3, 4)
            view, _, extent = self.quietly(compiled, x)
            self.assertEqual((view.data_ptr(), tuple(view.shape), extent), (x.data_ptr(), (3 * count, 4), count))

    def test_outputs_that_share_memory(self):
        def function(x):
            y = x * 2
            return y.t(), y

        view, whole = self.quietly(torch.compile(function, backend="tenon"), torch.randn(2, 3))
        whole.fill_(7)
        close(view, torch.full((3, 2), 7.0))

    def test_graphs_without_tensors(self):
        for made in self.quietly(torch.compile(lambda: (torch.arange(4) * 2, torch.ones(2).bfloat16()), backend="tenon")):
            self.assertIsInstance(made, torch.Tensor)
        self.assertEqual(made.dtype, torch.bfloat16)

    def test_modules_made_in_inference_mode(self):
        with torch.inference_mode():
            network, x = Network().eval(), torch.randn(1, 3, 8, 8)
            compiled = torch.compile(network, backend="tenon")
            for _ in range(2):
                close(self.quietly(compiled, x), network(x))

    def test_reductions_of_halves_stay_halves(self):
        def function(x):
            return x.sum(), x.sum(0) @ x, x.cumsum(0), x.amax(), x.prod(), torch.nn.functional.mse_loss(x, x * 2)

        for dtype in (torch.float16, torch.bfloat16):
            x = torch.rand(3, 3).to(dtype)
            for found, expected in zip(self.quietly(torch.compile(function, backend="tenon"), x), function(x)):
                torch.testing.assert_close(found, expected, rtol=3e-2, atol=2e-2)

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
