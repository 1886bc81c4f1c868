#!/usr/bin/env python3
"""What `tenon compile` adds to firmware: the self-test (--self-test), the layers' hooks (--hooks),
layers in strips (--ram-limit), and memories (--pool), built with the strictest C compiler and run on this machine and on an
emulated Cortex-M4.

    test_options.py
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy", "onnx")

from firmware import (BOARDS, C_FLAGS, EMULATOR_FLAGS, EXAMPLE, HostModel, Image, boards, counter, fuses_here,
                      seeded_inputs)  # fmt: skip
from generated import compile_model
from tenon import tenon

DIGITS = ROOT / "examples/digits"
C89 = ["-std=c89", "-pedantic", "-Wall", "-Wextra", "-Werror"]
# The exit status is what the self-test answers; with hooks the layers are printed.
MAIN = """
#include "net.h"
{includes}
static unsigned char memory[NET_CONTEXT_BYTES];
{hooks}
int {main}(void) {{
  net_context *context;
  if (net_context_place(net_model_get(), memory, sizeof memory, &context) != 0)
    return 9;
  return net_self_test(context);
}}
"""
HOOKS = """
static int open_layers, last = -1;
void net_before_layer(int layer, const char *nodes) {
  if (open_layers++ || layer != last + 1)
    puts("out of order");
  last = layer;
  printf("%d %s\\n", layer, nodes);
}
void net_after_layer(int layer, const char *nodes) {
  if (--open_layers || layer != last)
    puts("out of order");
  (void)nodes;
}
"""


class Options(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tenon-options-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.cxx, self.cc = os.environ.get("CXX", "c++"), os.environ.get("CC", "cc")

    def call(self, *words, status=0):
        done = subprocess.run([str(word) for word in words], cwd=self.folder, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)  # fmt: skip
        self.assertEqual(done.returncode, status, f"{words}: {done.stderr[-2000:]}{done.stdout[-500:]}")
        return done.stdout

    def compile(self, model, *words, target="mcu:generic"):
        compile_model(model, self.folder / "net.cpp", f"--target={target}", *words)

    def build(self, main, *flags):
        (self.folder / "main.c").write_text(main)
        for name in ("main", "net_self_test"):
            self.call(self.cc, *C89, "-c", f"{name}.c")
        self.call(self.cxx, "-std=c++17", "-O2", *flags, "-c", "net.cpp")
        self.call(self.cxx, "main.o", "net_self_test.o", "net.o", "-o", "program")

    def change_expected(self):
        """Another first word of the first expected output."""
        file = self.folder / "net_self_test.c"
        head, tail = file.read_text().split("expected_0[", 1)
        brace = tail.index("{") + 1
        file.write_text(f"{head}expected_0[{tail[:brace]}3u,{tail[tail.index(',', brace) + 1:]}")

    def test_floats(self):
        main = MAIN.format(main="main", includes="", hooks="")
        self.compile(DIGITS / "digits.onnx", f"--self-test={DIGITS / 'test_data_set_0'}")
        self.build(main)
        self.call("./program")
        if fuses_here():  # other roundings pass, another value does not
            self.build(main, "-mfma")
            self.call("./program")
        self.change_expected()
        self.build(main)
        self.call("./program", status=100)

    def test_integers(self):
        """A step of the last place counts where outputs are integers."""
        (self.folder / "model.tn").write_text(
            'module "m" stage=imported {\n'
            '  graph @main (%x "x": tensor<5xi8>) -> ("y") {\n'
            "    %y = map %x, %x (%0: i8, %1: i8) {\n      %2 = add %0, %1 : i8\n      yield %2\n"
            "    } : tensor<5xi8>\n    return %y\n  }\n}\n")
        self.compile(self.folder / "model.tn", "--self-test")
        main = MAIN.format(main="main", includes="", hooks="")
        self.build(main)
        self.call("./program")
        self.change_expected()
        self.build(main)
        self.call("./program", status=100)

    def test_hooks(self):
        self.compile(DIGITS / "digits.onnx", "--self-test", "--hooks")
        self.build(MAIN.format(main="main", includes="#include <stdio.h>", hooks=HOOKS))
        lines = self.call("./program").splitlines()
        header = (self.folder / "net.h").read_text()
        self.assertIn(f"#define NET_LAYER_COUNT {len(lines)}\n", header)
        self.assertEqual([int(line.split()[0]) for line in lines], list(range(len(lines))))
        self.assertIn("stem/conv", lines[0])
        self.assertNotIn("out of order", "".join(lines))

    def test_two_networks(self):
        """Two networks with all options in one program: no name of the one is the other's."""
        calls = ""
        for name, options in (("first", ["--optimize=speed"]), ("second", ["--optimize=size"])):
            compile_model(DIGITS / "digits.onnx", self.folder / f"{name}.cpp", "--target=mcu:generic",
                          "--self-test", "--hooks", f"--depfile={self.folder / name}.d", *options)  # fmt: skip
            self.assertIn("digits.onnx", (self.folder / f"{name}.d").read_text())
            self.call(self.cxx, "-std=c++17", "-O1", "-c", f"{name}.cpp")
            self.call(self.cc, *C89, "-c", f"{name}_self_test.c")
            calls += MAIN.format(main=f"test_{name}", includes="", hooks=HOOKS).replace("net", name).replace(
                "NET", name.upper()).replace("last", f"last_{name}").replace("open_layers", f"open_{name}").replace(
                "memory", f"memory_{name}")  # fmt: skip
        main = "int main(void) { const int code = test_first(); return code ? code : test_second(); }\n"
        (self.folder / "main.c").write_text(f"#include <stdio.h>\n{calls}{main}")
        self.call(self.cc, *C89, "-c", "main.c")
        objects = ["main.o", "first.o", "second.o", "first_self_test.o", "second_self_test.o"]
        self.call(self.cxx, *objects, "-o", "program")
        self.assertNotIn("out of order", self.call("./program"))

    def test_on_a_board(self):
        board = boards()["m4"]
        if board.missing:
            self.skipTest(f"needs {', '.join(board.missing)}; run scripts/setup")
        for changed in (False, True):
            self.compile(DIGITS / "digits.onnx", "--self-test", target=board.target)
            if changed:
                self.change_expected()
            (self.folder / "main.c").write_text(MAIN.format(main="firmware_main", includes="", hooks=""))
            for file in ("main.c", "net_self_test.c", BOARDS / board.start, BOARDS / "semihosting.c"):
                self.call(f"{board.prefix}gcc", *board.core, *C_FLAGS, "-I.", f"-I{EXAMPLE}", "-c", file)
            head = (self.folder / "net.cpp").read_text().splitlines()[0]
            self.call(*head.removeprefix("// ").split())
            objects = sorted(self.folder.glob("*.o"))
            self.call(f"{board.prefix}gcc", *board.core, "-nostartfiles", "-Wl,--gc-sections", f"-L{BOARDS}",
                      "-T", board.script, *objects, "-o", "image.elf")  # fmt: skip
            self.call(*board.qemu, *EMULATOR_FLAGS, "-kernel", "image.elf", "-semihosting-config",
                      "enable=on,target=native", status=100 if changed else 0)  # fmt: skip

    def test_run(self):
        """`tenon run` and `bench` on every emulated Arm board: groups are the interpreter's, and the
        instructions are those that the plugin of the emulator counts."""
        make = [sys.executable, ROOT / "tests/models/make.py", self.folder, "--models=probe_streaming"]
        self.call(*make)
        streaming = self.folder / "probe_streaming/model.onnx"
        for board in boards().values():
            if board.prefix != "arm-none-eabi-":
                continue
            if board.missing:
                self.skipTest(f"needs {', '.join(board.missing)}; run scripts/setup")
            with self.subTest(board.name):
                target = f"--target={board.target}"
                answer = tenon("run", DIGITS / "digits.onnx", target, "--check=groups",
                               f"--data={DIGITS / 'test_data_set_0'}", "--json")  # fmt: skip
                self.assertEqual(answer.status, 0, answer.errors)
                self.assertTrue(answer.document["pass"] and answer.document["groups"])
                answer = tenon("run", streaming, target, "--against=interpreter",
                               "--state=cache=cache_out")  # fmt: skip
                self.assertEqual(answer.status, 0, answer.errors)
                answer = tenon("bench", DIGITS / "digits.onnx", target, "--profile", "--json")
                self.assertEqual(answer.status, 0, answer.errors)
                found = answer.document["instructions"]
                image = Image(DIGITS / "digits.onnx", board, self.folder / board.name)
                inputs = seeded_inputs(image.interface, 1)
                counted = image.run(inputs, counter(self.folder)).instructions[0]
                self.assertAlmostEqual(found, counted, delta=0.01 * counted)
                layers = sum(step["instructions"] for step in answer.document["profile"])
                self.assertAlmostEqual(layers, found, delta=0.05 * found)

    def test_inspect(self):
        """What `tenon inspect` measures is what an image has, compiler libraries left out."""
        board = boards()["m4"]
        if board.missing:
            self.skipTest(f"needs {', '.join(board.missing)}; run scripts/setup")
        model = DIGITS / "digits.onnx"
        document = tenon("inspect", model, f"--target={board.target}", "--format=json").document
        flash, layers = document["flash"], document["layers"]
        self.assertTrue(flash["measured"])
        self.assertTrue(all(layer["cycles"] > 0 and layer["nodes"] for layer in layers))
        self.assertGreater(sum(layer["code_bytes"] for layer in layers), 0.8 * flash["code_bytes"])
        sizes = Image(model, board, self.folder).sizes()
        self.assertAlmostEqual(flash["code_bytes"], sizes.code, delta=0.06 * sizes.code)
        self.assertAlmostEqual(flash["weight_bytes"], sizes.weights, delta=1)

    def test_estimate(self):
        """Estimated cycles are one to four for each instruction that runs, whatever the kernels."""
        board = boards()["m4"]
        if board.missing:
            self.skipTest(f"needs {', '.join(board.missing)}; run scripts/setup")
        self.call(sys.executable, ROOT / "tests/models/make.py", self.folder, "--models=keyword_dscnn_qdq")
        for model in (DIGITS / "digits.onnx", self.folder / "keyword_dscnn_qdq/model.onnx"):
            with self.subTest(model.parent.name):
                layers = tenon("inspect", model, f"--target={board.target}", "--format=json").document["layers"]
                image = Image(model, board, self.folder / model.parent.name)
                counted = image.run(seeded_inputs(image.interface, 1), counter(self.folder)).instructions[0]
                ratio = sum(layer["cycles"] for layer in layers) / counted
                self.assertTrue(1 <= ratio <= 4, f"{ratio} cycles for each instruction")

    def test_ram_limit(self):
        """Strips give the bytes of the whole network, in less memory."""
        make = [sys.executable, ROOT / "tests/models/make.py", self.folder, "--models=mobilenet_qdq"]
        self.call(*make)
        model = self.folder / "mobilenet_qdq/model.onnx"
        whole = HostModel(model, self.folder / "whole")
        arena = lambda folder: int(re.search(r"_ARENA_BYTES (\d+)", (folder / "network.h").read_text())[1])
        limit = arena(self.folder / "whole") * 3 // 4
        strips = HostModel(model, self.folder / "strips", f"--ram-limit={limit}")
        self.assertLessEqual(arena(self.folder / "strips"), limit)
        inputs = seeded_inputs(whole.interface, 3)
        self.assertEqual(whole.results(inputs), strips.results(inputs))
        # Strips, too, where it is the memories that are small.
        most = limit * 4 // 3
        half = most * 45 // 100 // 64 * 64
        words = [f"--ram-limit={most}", f"--pool=fast={half}", f"--pool=slow={half}"]
        self.compile(model, *words)
        taken = re.findall(r"_POOL_(?:FAST|SLOW)_BYTES (\d+)", (self.folder / "net.h").read_text())
        self.assertTrue(len(taken) == 2 and all(int(size) <= half for size in taken), taken)
        answer = tenon("compile", model, "-o", self.folder / "no.cpp", "--target=mcu:generic",
                       f"--ram-limit={most}", "--pool=fast=1024", "--pool=slow=1024")  # fmt: skip
        self.assertEqual(answer.status, 1)
        self.assertIn("none that fits into the memories of --pool", answer.errors)

    def test_pools(self):
        """The self-test passes in memories of the caller's, and in those that the file has itself."""
        words = ["--self-test", "--pool=fast=1024", "--pool=slow=65536"]
        self.compile(DIGITS / "digits.onnx", *words)
        main = MAIN.format(main="main", includes="", hooks="")
        place = "    return 9;\n"
        pools = ("  {\n    static double fast[NET_POOL_FAST_BYTES / 8 + 2], slow[NET_POOL_SLOW_BYTES / 8 + 2];\n"
                 "    char *const f = (char *)fast, *const s = (char *)slow;\n"
                 "    if (net_self_test(context) != 1)\n      return 8;\n"
                 "    if (net_context_set_pool(context, NET_POOL_FAST, f + (16 - (size_t)f % 16) % 16,"
                 " NET_POOL_FAST_BYTES) ||\n        net_context_set_pool(context, NET_POOL_SLOW,"
                 " s + (16 - (size_t)s % 16) % 16, NET_POOL_SLOW_BYTES))\n      return 7;\n"
                 "    if (net_context_set_pool(context, NET_POOL_SLOW, s, 16) == 0)\n      return 6;\n  }\n")  # fmt: skip
        self.build(main.replace(place, place + pools))
        self.call("./program")
        self.build(main, "-DTENON_POOL_FAST_SECTION=", "-DTENON_POOL_SLOW_SECTION=")
        self.call("./program")

    def test_refused(self):
        for words, status, reason in [
            (["--target=cuda:sm_80", "--hooks"], 2, "--hooks: layers of cuda:sm_80 run on the device"),
            (["--self-test=/nowhere"], 1, "/nowhere"),
        ]:
            target = [] if any("--target" in word for word in words) else ["--target=mcu:generic"]
            suffix = "cu" if "cuda" in words[0] else "cpp"
            answer = tenon("compile", DIGITS / "digits.onnx", "-o", self.folder / f"net.{suffix}",
                           *target, *words)  # fmt: skip
            self.assertEqual(answer.status, status)
            self.assertIn(reason, answer.errors)
            self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)
