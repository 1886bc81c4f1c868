"""Tunes a network on this machine and compiles with what was measured: the file names every layer
once per form, the same file gives the same bytes, outputs stay right, and nothing is slower than
noise allows.

usage: test_tune.py
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))

from tenon import tenon

LAYERS = 6  # convolutions of one form, and one more
MODEL = """module "net" stage=imported {{
  graph @main (%x0 "x": tensor<1x16x20x20xf32>) -> ("y") {{
{layers}
    return %y
  }}
}}
"""


def layer(k, extent, result):
    """A 3x3 convolution with ReLU, weights of its own."""
    shape = f"tensor<1x16x{extent}x{extent}xf32>"
    return f"""    %w{k} = constant {{value = splat<16x16x3x3xf32: 0.0{k + 1}>}} : tensor<16x16x3x3xf32>
    %c{k} = conv %x{k}, %w{k} {{pads = [1, 1, 1, 1], strides = [{20 // extent}, {20 // extent}]}} : {shape} loc("conv{k}")
    %{result} = map %c{k} (%p{k}: f32) {{
      %q{k} = relu %p{k} : f32
      yield %q{k}
    }} : {shape} loc("relu{k}")"""


def model():
    layers = [layer(k, 20, f"x{k + 1}") for k in range(LAYERS)]
    layers.append(layer(LAYERS, 10, "y"))
    return MODEL.format(layers="\n".join(layers))


def succeed(*words):
    answer = tenon(*words)
    assert answer.status == 0, answer.errors or answer.output
    return answer


def entries(path):
    lines = path.read_text().split("\n\n", 1)[1].splitlines()
    assert lines == sorted(lines), "the entries are not sorted"
    return {line.split()[0]: line for line in lines}


def main():
    with tempfile.TemporaryDirectory(prefix="tenon-tune-") as name:
        folder = Path(name)
        net = folder / "net.tn"
        net.write_text(model())
        words = ["--target=cpu:native", "--candidates=3"]
        answer = succeed("tune", net, "-o", folder / "net.tuning", "--seconds=1", "--json", *words)
        forms = answer.document["forms"]
        measured = entries(folder / "net.tuning")
        assert set(measured) == {f["key"] for f in forms}
        assert sum(f["occurrences"] for f in forms) >= LAYERS + 1
        # The layers in the middle are one form: one line, and their samples add up.
        assert max(f["occurrences"] for f in forms) >= LAYERS - 2, forms
        for form in forms:
            assert len(form["candidates"]) <= 3
            for candidate in form["candidates"]:
                assert candidate["estimated_us"] > 0 and candidate["measured_us"] > 0, candidate
            chosen = form["candidates"][form["chosen"]]
            assert chosen["measured_us"] <= form["candidates"][0]["measured_us"]
            assert chosen["schedule"] in measured[form["key"]]

        for target in ("a", "b"):
            (folder / target).mkdir()
            succeed("compile", net, "-o", folder / target / "net.cpp", "--target=cpu:native",
                    f"--tuning={folder}/net.tuning", "-q")  # fmt: skip
        for file in ("net.cpp", "net.h"):
            assert (folder / "a" / file).read_bytes() == (folder / "b" / file).read_bytes()
        report = succeed("compile", net, "-o", folder / "a/net.cpp", "--target=cpu:native",
                         f"--tuning={folder}/net.tuning", "--report=kernels", "--json")  # fmt: skip
        kernels = report.document["kernels"]
        assert all("measured_us" in k for k in kernels), kernels
        succeed("run", net, "--target=cpu:native", f"--tuning={folder}/net.tuning",
                "--against=interpreter", "--check=groups")  # fmt: skip
    print("1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
