#!/usr/bin/env python3
"""The digits network as firmware: compiled for mcu:generic, freestanding, without exceptions, RTTI,
heap or C library; linked into an image that has none of them, and run.

    test_firmware.py
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from project_venv import require

require("numpy")

import numpy as np
from firmware import STRICT
from generated import Model, build_library, compile_model
from tenon import tenon

DIGITS = ROOT / "examples/digits"
FIRMWARE = ROOT / "examples/firmware"
# What an image may leave to its toolchain: the functions that a freestanding compiler calls for
# copies, and <math.h>. Nothing that allocates, throws, or runs before main.
PERMITTED = {"memcpy", "memmove", "memset", "memcmp"}
MATH = {"ceil", "cos", "erf", "exp", "floor", "fma", "fmod", "ldexp", "log", "pow", "rint", "round",
        "sin", "sqrt", "tan", "tanh", "trunc"}  # fmt: skip
PERMITTED |= MATH | {name + "f" for name in MATH}
QUANTIZED = ["keyword_dscnn_qdq", "resnet_qdq", "mobilenet_qdq", "autoencoder_qdq", "gated_qdq",
             "attention_qdq"]  # fmt: skip
# Floats in the machine code: arithmetic and conversions of the FPU and of Helium.
FLOATS = re.compile(r"\sv(?:add|sub|mul|div|n?ml[as]|fn?m[as]|cvt\w|cmpe?|sqrt|abs|neg|max\w*|min\w*)\.\w*f(?:16|32|64)")
# Functions of the header for callers with floats.
CALLERS = r"^net_(de)?quantize_|dequantize_softmax"
MODELS = ["mobilenet_fp32", "keyword_dscnn_qdq", "autoencoder_qdq", "probe_streaming"]


def command(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{words[0]}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout


class Firmware(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tenon-firmware-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.cxx, self.cc = os.environ.get("CXX", "c++"), os.environ.get("CC", "cc")

    def object_file(self, model, name, *words):
        """Built as the generated file's first line says."""
        source = self.folder / f"{name}.cpp"
        compile_model(model, source, "--target=mcu:generic", *words)
        build = source.read_text().splitlines()[0].removeprefix("// c++ ").split()
        for flag in ("-ffreestanding", "-fno-exceptions", "-fno-rtti"):
            self.assertIn(flag, build)
        if clang := shutil.which("clang++"):
            command(clang, *build, *STRICT, "-fsyntax-only", cwd=self.folder)
        command(self.cxx, *build, *STRICT, cwd=self.folder)
        return self.folder / f"{name}.o"

    def check_symbols(self, file):
        undefined = command("nm", "--undefined-only", "--format=posix", file).decode()
        symbols = {line.split()[0] for line in undefined.splitlines()}
        self.assertLessEqual(symbols, PERMITTED, "undefined symbols")
        sections = command("readelf", "-SW", file).decode()
        for constructors in (".init_array", ".ctors", ".eh_frame_hdr", ".gcc_except_table"):
            self.assertNotIn(constructors, sections)
        # What is written at run time lies in the caller's memory, not in the image; the context of
        # context_create is dropped by the linker where nobody calls that.
        defined = command("nm", "--defined-only", "--format=posix", "--print-size", file).decode()
        for name, kind, _, *size in (line.split() for line in defined.splitlines()):
            if kind in "bBdD" and size and not name.endswith("_only_context"):
                self.assertLessEqual(int(size[0], 16), 64, name)

    def test_image(self):
        network = self.object_file(DIGITS / "digits.onnx", "digits")
        self.check_symbols(network)
        objects = [network]
        for stem in ("main", "boards/linux"):
            objects.append(self.folder / f"{Path(stem).name}.o")
            command(self.cc, "-std=gnu89", "-O2", "-ffreestanding", "-fno-builtin", "-Wall", "-Wextra",
                    "-Werror", "-fno-stack-protector", f"-I{self.folder}", f"-I{FIRMWARE}", "-c",
                    FIRMWARE / f"{stem}.c", "-o", objects[-1])  # fmt: skip
        image = self.folder / "firmware"
        command(self.cc, "-nostdlib", "-static", *objects, "-o", image)
        heldout = (DIGITS / "heldout.bin").read_bytes()
        said, verdict = command(image, input=heldout).decode().splitlines()

        records = np.frombuffer(heldout, np.uint8).reshape(-1, 65)
        self.assertEqual(len(said), len(records))
        expected = self.hosted(records)
        self.assertEqual(said, "".join(str(digit) for digit in expected.argmax(1)))
        right = sum(int(c) == label for c, label in zip(said, records[:, 64]))
        self.assertGreater(right / len(records), 0.97)
        self.assertEqual(verdict, f"{right} of {len(records)} right")

    def hosted(self, records):
        """The probabilities of cpu:generic, in an ordinary process."""
        source = self.folder / "hosted/net.cpp"
        source.parent.mkdir()
        compile_model(DIGITS / "digits.onnx", source, "--target=cpu:generic")
        model = Model(build_library(source, "-O2", ["-fno-tree-vectorize"]), "net")
        self.addCleanup(model.close)
        found = np.zeros((1, 10), np.float32)
        rows = []
        for record in records:
            image = record[:64].astype(np.float32).reshape(1, 1, 8, 8)
            model.bind([image], [found])
            model.run()
            rows.append(found[0].copy())
        return np.array(rows)

    def test_values(self):
        data = DIGITS / "test_data_set_0"
        answer = tenon("run", DIGITS / "digits.onnx", "--target=mcu:generic", f"--data={data}",
                       "--check=groups", "--json")  # fmt: skip
        self.assertEqual(answer.status, 0, answer.errors or answer.output)
        self.assertTrue(answer.document["pass"])

    def test_other_networks_need_no_more(self):
        make = ROOT / "tests/models/make.py"
        command(sys.executable, make, self.folder / "models", f"--models={','.join(MODELS)}")
        for name in MODELS:
            with self.subTest(name):
                words = ["--state=cache=cache_out"] if name == "probe_streaming" else []
                model = self.folder / "models" / name / "model.onnx"
                self.check_symbols(self.object_file(model, name, *words))

    def float_functions(self, object_file):
        """Functions with float instructions, but for those that the header offers to callers with
        floats, and what the object file leaves to libraries."""
        found, function = set(), ""
        for line in command("arm-none-eabi-objdump", "-d", object_file).decode().splitlines():
            if match := re.fullmatch(r"[0-9a-f]+ <(\w+)>:", line):
                function = match[1]
            elif FLOATS.search(line) and not re.search(CALLERS, function):
                found.add(function)
        undefined = command("arm-none-eabi-nm", "--undefined-only", "--format=posix", object_file).decode()
        return found, {line.split()[0] for line in undefined.splitlines()}

    def test_no_floats(self):
        """Fully quantised networks hold no float code and no division of 64 bits; float ones do."""
        if not shutil.which("arm-none-eabi-g++"):
            self.skipTest("needs arm-none-eabi-g++; run scripts/setup")
        make = ROOT / "tests/models/make.py"
        names = [*QUANTIZED, "mobilenet_fp32"]
        command(sys.executable, make, self.folder / "models", f"--models={','.join(names)}")
        for name in names:
            for core in ("m4", "m55") if name in ("mobilenet_qdq", "gated_qdq") else ("m4",):
                with self.subTest(f"{name} on {core}"):
                    source = self.folder / "net.cpp"
                    compile_model(self.folder / "models" / name / "model.onnx", source,
                                  f"--target=mcu:cortex-{core}")  # fmt: skip
                    words = source.read_text().splitlines()[0].removeprefix("// ").split()
                    command(*words, cwd=self.folder)
                    floats, undefined = self.float_functions(self.folder / "net.o")
                    if name in QUANTIZED:
                        self.assertEqual(floats, set())
                        self.assertLessEqual(undefined, {"memcpy", "memmove", "memset"})
                    else:
                        self.assertNotEqual(floats, set())

    def test_memory_reserved_when_linking(self):
        source = self.folder / "digits.cpp"
        compile_model(DIGITS / "digits.onnx", source, "--target=mcu:generic")
        check = self.folder / "check.cpp"
        check.write_text('#include "digits.h"\n#include <stdio.h>\n'
                         "int main() {\n"
                         "  digits_model *model;\n"
                         "  return digits_model_open(nullptr, &model) != 0 ||\n"
                         "         digits_model_context_bytes(model) != DIGITS_CONTEXT_BYTES;\n"
                         "}\n")
        command(self.cxx, "-std=c++17", check, source, "-o", self.folder / "check")
        command(self.folder / "check")


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)
