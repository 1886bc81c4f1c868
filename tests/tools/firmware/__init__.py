"""Networks as firmware images on emulated boards: built with the cross compilers, run by QEMU, counted
by a plugin of its translator, and the same network on this machine and in the interpreter to compare with.

The boards are those of examples/firmware/boards."""

import ctypes
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from generated import Interface, Model, build_library, compile_model
from tenon import tenon

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
EXAMPLE = ROOT / "examples/firmware"
BOARDS = EXAMPLE / "boards"
C_FLAGS = "-O2 -ffreestanding -ffunction-sections -fdata-sections -Wall -Wextra -Werror".split()
# What generated C++ compiles with in silence.
STRICT = ("-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wdouble-promotion "
          "-Werror").split()  # fmt: skip
EMULATOR_FLAGS = "-display none -monitor none -serial none".split()


class FirmwareError(Exception):
    pass


def call(*words, cwd=None, timeout=600):
    """A command's standard output; an error with what it said when it fails."""
    words = [str(word) for word in words]
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=timeout)  # fmt: skip
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise FirmwareError(f"{Path(words[0]).name}: exit status {done.returncode}: {said}")
    return done.stdout


@dataclass(frozen=True)
class Board:
    """A file boards/NAME.mk."""

    name: str
    target: str
    prefix: str
    core: tuple
    start: str
    script: str
    qemu: tuple

    @property
    def fused(self):
        """Whether it has fused multiply-add, which generated float code then uses."""
        return "-mfpu" in " ".join(self.core) or "cortex-m55" in " ".join(self.core)

    @property
    def missing(self):
        """The programs it needs that are not installed."""
        return [tool for tool in (f"{self.prefix}g++", self.qemu[0]) if not shutil.which(tool)]


def boards():
    """All boards by name."""
    found = {}
    for path in sorted(BOARDS.glob("*.mk")):
        lines = dict(re.findall(r"^(\w+) = (.*)$", path.read_text(), re.MULTILINE))
        found[path.stem] = Board(path.stem, lines["TARGET"], lines["PREFIX"],
                                 tuple(lines["CORE"].split()), lines["START"], lines["SCRIPT"],
                                 tuple(lines["QEMU"].split()))  # fmt: skip
    return found


@cache
def counter(folder):
    """The plugin that counts instructions, built in a folder."""
    library = Path(folder) / "libcount.so"
    call(os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror",
         HERE / "count.c", "-o", library)  # fmt: skip
    return library


@dataclass
class Sizes:
    """Bytes of flash that a network takes, with what it needs of the compiler's libraries."""

    code: int
    weights: int


@dataclass
class Execution:
    """What an image did: outputs of each run as bytes, its largest stack, instructions of each run;
    over all runs those of each step by its name, and how often each address was executed."""

    outputs: list
    stack: int
    instructions: list = field(default_factory=list)
    steps: Counter = field(default_factory=Counter)
    profile: Counter = field(default_factory=Counter)


class Image:
    """A network for a board: compiled by tenon, cross-compiled, linked with measure.c."""

    def __init__(self, model, board, folder, *words):
        self.model, self.board, self.folder, self.words = model, board, Path(folder), words
        self.folder.mkdir(parents=True, exist_ok=True)
        source = self.folder / "network.cpp"
        compile_model(model, source, f"--target={board.target}", *words)
        self.interface = Interface(source.with_suffix(".h"))
        self.build(source)

    def tool(self, name):
        return self.board.prefix + name

    def build(self, source):
        # The generated file as its first line says, but for what the board alone knows.
        head = source.read_text().splitlines()[0].removeprefix("// ").split()
        flags = [*head[1:], *self.board.core, "-ffunction-sections", "-fdata-sections",
                 '-DTENON_WEIGHTS_SECTION=__attribute__((section(".weights")))']  # fmt: skip
        call(self.tool("g++"), *flags, *STRICT, cwd=self.folder)
        objects = [self.folder / "network.o"]
        for file in (HERE / "measure.c", BOARDS / "semihosting.c", BOARDS / self.board.start):
            objects.append(self.folder / f"{file.stem}.o")
            call(self.tool("gcc"), *self.board.core, *C_FLAGS, f"-I{self.folder}", f"-I{EXAMPLE}",
                 *self.port_macros(), "-c", file, "-o", objects[-1])  # fmt: skip
        self.file = self.folder / "image.elf"
        self.link(objects, self.file, "-T", self.board.script, f"-L{BOARDS}")

    def link(self, objects, image, *flags):
        call(self.tool("gcc"), *self.board.core, "-nostartfiles", "-Wl,--gc-sections", *flags,
             *objects, "-lm", "-o", image)  # fmt: skip

    def port_macros(self):
        def macros(kind, ports):
            sizes = [port.bytes for port in ports] or [0]
            room = sum(size + 16 for size in sizes) + 16
            return [f"-D{kind}_BYTES={{{','.join(map(str, sizes))}}}", f"-D{kind}_ROOM={room}"]

        return macros("INPUT", self.interface.inputs) + macros("OUTPUT", self.interface.outputs)

    def sizes(self):
        """Of an image that holds nothing but the network."""
        bare = self.folder / "bare.elf"
        entries = [f"-Wl,-u,network_{name}" for name in ("run", "model_get", "context_place")]
        self.link([self.folder / "network.o"], bare, *entries, "-Wl,-e,network_run",
                  "-T", self.board.script, f"-L{BOARDS}")  # fmt: skip
        sections = dict(re.findall(r"^(\.\S+)\s+(\d+)", call(self.tool("size"), "-A", bare), re.M))
        bytes_of = {name: int(size) for name, size in sections.items()}
        code = sum(bytes_of.get(name, 0) for name in (".text", ".rodata", ".ARM.exidx", ".data"))
        return Sizes(code, bytes_of.get(".weights", 0))

    def symbols(self):
        """[(address, name)] of the functions, in order of address."""
        lines = call(self.tool("nm"), "-C", self.file).splitlines()
        found = [re.match(r"([0-9a-f]+) [tTwW] (.*)", line) for line in lines]
        functions = {(int(f[1], 16), f[2]) for f in found if f and not f[2].startswith("$")}
        return sorted(functions)

    def run(self, inputs, plugin=None):
        """Runs sets of input bytes one after the other; counts instructions with the plugin."""
        data, results = self.folder / "inputs.bin", self.folder / "outputs.bin"
        counts = self.folder / "counts.txt"
        data.write_bytes(b"".join(b"".join(one) for one in inputs))
        results.unlink(missing_ok=True)
        words = [*self.board.qemu, *EMULATOR_FLAGS, "-kernel", self.file, "-semihosting-config",
                 "enable=on,target=native,arg=inputs.bin,arg=outputs.bin"]  # fmt: skip
        if plugin:
            address = {name: at for at, name in self.symbols()}
            steps = {at: step for at, name in self.symbols() if (step := step_name(name))}
            words += ["-plugin", f"{plugin},begin={address['network_run']:#x},"
                      f"end={address['measured_end']:#x},out={counts}"
                      + "".join(f",part={at:#x}" for at in steps)]  # fmt: skip
        call(*words, cwd=self.folder)
        answer = results.read_bytes()
        sizes = [port.bytes for port in self.interface.outputs]
        one = sum(sizes)
        if len(answer) != one * len(inputs) + 4:
            raise FirmwareError(f"{len(answer)} bytes of output, expected {one * len(inputs) + 4}")
        runs = [answer[at : at + one] for at in range(0, one * len(inputs), one)] if one else []
        result = Execution(runs, int.from_bytes(answer[-4:], "little"))
        if plugin:
            for line in counts.read_text().splitlines():
                what, *at, count = line.split()
                if what == "run":
                    result.instructions.append(int(count))
                elif what == "part":
                    result.steps[steps[int(at[0], 16)]] += int(count)
                else:
                    result.profile[int(what, 16)] += int(count)
        return result

    def arena_bytes(self):
        """Arena and states, as the header states them."""
        header = (self.folder / "network.h").read_text()
        sizes = re.findall(r"^#define NETWORK_(?:ARENA|STATE)_BYTES (\d+)", header, re.MULTILINE)
        return sum(map(int, sizes))

    def layers(self, execution):
        """[(step, instructions a run, multiply-adds)] in the order of the steps."""
        runs = max(1, len(execution.instructions))
        macs = {layer["step"]: int(layer["macs"]) for layer in self.inspected()["layers"]}
        rows = []
        for name, count in execution.steps.items():
            number = int(re.match(r"step(\d+)", name)[1])
            rows.append((number, name, count / runs, macs.get(number, 0)))
        return [row[1:] for row in sorted(rows)]

    def inspected(self):
        return tenon("inspect", self.model, f"--target={self.board.target}", "--format=json",
                     *self.words).document  # fmt: skip

    def functions(self, execution):
        """[(name, instructions a run)] of a counted execution, most first. A kernel is called by the
        step whose configuration it is an instance for."""
        symbols = self.symbols()
        totals, at = Counter(), 0
        for address in sorted(execution.profile):
            while at + 1 < len(symbols) and symbols[at + 1][0] <= address:
                at += 1
            totals[short_name(symbols[at][1])] += execution.profile[address]
        runs = max(1, len(execution.instructions))
        return [(name, count / runs) for name, count in totals.most_common()]


def step_name(function):
    """step3_Conv, for the function of a step; None for others."""
    found = re.fullmatch(r"network_code::(step\d+\w*)\(.*", function)
    return found and found[1]


def short_name(function):
    """step3_Conv: conv_tile, for an instance of a kernel; other names as they are."""
    step = re.search(r"\b(step\d+\w*?)_(?:config|body)", function)
    kernel = re.search(r"(\w+)<", function)
    return f"{step[1]}: {kernel[1]}" if step and kernel else function


class HostModel(Model):
    """The network of mcu:generic in this process: what an image is compared with."""

    def __init__(self, model, folder, *words, fused=False):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / "network.cpp"
        compile_model(model, source, "--target=mcu:generic", *words)
        library = build_library(source, "-O2", ["-mfma"] if fused else [])
        self.prefix = "network"
        self.interface = Interface(source.with_suffix(".h"))
        self.shared = ctypes.CDLL(str(library))
        self.function("error_message").restype = ctypes.c_char_p
        self.function("model_get").restype = ctypes.c_void_p
        self.function("model_context_bytes").restype = ctypes.c_size_t
        self.model = ctypes.c_void_p(self.function("model_get")())
        size = self.function("model_context_bytes")(self.model)
        self.memory = ctypes.create_string_buffer(size)
        self.context = ctypes.c_void_p()
        self.check(self.function("context_place")(self.model, self.memory, ctypes.c_size_t(size),
                                                  ctypes.byref(self.context)))  # fmt: skip
        self.run_function = self.function("run")

    def results(self, inputs):
        """Output bytes of sets of input bytes, run one after the other."""
        found = []
        for one in inputs:
            arrays = [np.frombuffer(data, np.uint8).copy() for data in one]
            outputs = [np.zeros(port.bytes, np.uint8) for port in self.interface.outputs]
            self.bind(arrays, outputs)
            self.run()
            found.append(b"".join(output.tobytes() for output in outputs))
        return found


class InterpretedModel:
    """The network in the interpreter, which runs no generated code: integers as the passes leave them."""

    def __init__(self, model, interface, folder, *words):
        self.interface, self.folder = interface, Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "network.tn"
        compile_model(model, self.file, "--target=mcu:generic", "--emit=tn", "--stage=optimized", *words)

    @property
    def exact(self):
        """Whether it has no floats, whose sums depend on the order that a kernel takes."""
        types = re.sub(r'"(?:[^"\\]|\\.)*"', "", self.file.read_text())
        return not re.search(r"\bb?f\d+\b", types)

    def results(self, inputs):
        """Output bytes of sets of input bytes."""
        return [self.result(one) for one in inputs]

    def result(self, inputs):
        words = [f"--save={self.folder}"]
        for number, (port, data) in enumerate(zip(self.interface.inputs, inputs)):
            file = self.folder / f"input_{number}.npy"
            np.save(file, np.frombuffer(data, element_type(port.type)).reshape(port.shape))
            words.append(f"--input={port.name}={file}")
        answer = tenon("run", self.file, "--target=interpreter", *words)
        if answer.status != 0:
            raise FirmwareError(f"the interpreter: {answer.reason}")
        files = json.loads((self.folder / "names.json").read_text())
        return b"".join(np.load(self.folder / files[port.name]).tobytes() for port in self.interface.outputs)


def fuses_here():
    """Whether this machine has fused multiply-add under -mfma."""
    try:
        return "fma" in Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False


def element_type(name):
    """numpy's type for an element type of the interface: f32, i8, u8, bool ..."""
    return np.dtype("?" if name == "bool" else f"{name[0]}{int(name[1:]) // 8}")


def seeded_inputs(interface, count, seed=0):
    """Sets of random input bytes: whole numbers over their range, floats of several sizes."""
    rng = np.random.default_rng(seed)
    sets = []
    for number in range(count):
        one = []
        for port in interface.inputs:
            kind = element_type(port.type)
            if kind.kind == "f":
                values = rng.normal(0, (1, 8, 64)[number % 3], port.size).astype(kind)
            elif kind.kind == "b":
                values = rng.integers(0, 2, port.size).astype(kind)
            else:
                info = np.iinfo(kind)
                values = rng.integers(info.min, info.max, port.size, kind, endpoint=True)
            one.append(values.tobytes())
        sets.append(one)
    return sets


@dataclass
class Comparison:
    """Whether every output byte is that of the same network on this machine, and in the interpreter;
    None where the network has floats, which the interpreter adds up in an order of its own."""

    host: bool
    interpreter: bool | None

    @property
    def complaint(self):
        """What differs; nothing when all bytes are the same."""
        others = [("this machine", self.host), ("the interpreter", self.interpreter)]
        differ = [name for name, same in others if same is False]
        return f"outputs differ from those of {' and '.join(differ)}" if differ else ""


def measure(model, board, folder, runs=3, words=()):
    """Image, what it did, and how its outputs compare: the host's network is compiled for speed."""
    folder = Path(folder)
    image = Image(model, board, folder / board.name, *words)
    inputs = seeded_inputs(image.interface, runs)
    execution = image.run(inputs, counter(folder.parent))
    ours = [word for word in words if not word.startswith("--optimize")]
    host = HostModel(model, folder / f"host-{board.fused}", *ours, fused=board.fused)
    interpreted = InterpretedModel(model, image.interface, folder / "interpreted", *ours)
    return image, execution, Comparison(
        host=host.results(inputs) == execution.outputs,
        interpreter=interpreted.results(inputs) == execution.outputs if interpreted.exact else None,
    )
