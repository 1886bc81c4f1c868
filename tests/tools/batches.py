"""Runs tests of generated code in batches: many generated files become one shared library, which a
child process (run_batch.py) loads and calls through the C interface.

Standard library only: a machine that a bundle was brought to runs its batches by this file, too."""

import json
import os
import re
import select
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

RUNNER = Path(__file__).with_name("run_batch.py")
# Models of one translation unit: as many as these bounds on their number and text allow.
MOST_MODELS, MOST_BYTES = 24, 160_000
BUILD_SECONDS = 600


@dataclass
class Case:
    """One test: its name, the generated file that stands for it, and what it is called with."""

    set: str
    test: str
    prefix: str
    bound: list = field(default_factory=list)
    source: str = ""  # generated file, in the folder of its batch
    tensors: dict = field(default_factory=dict)  # run_batch.py says what is in it

    @staticmethod
    def of(row):
        return Case(**row)

    def row(self):
        return asdict(self)


def batches(cases, folder):
    """The cases in order, in lists that make one translation unit each."""
    batch, size = [], 0
    for case in cases:
        bytes_here = (folder / case.source).stat().st_size
        if batch and (len(batch) == MOST_MODELS or size + bytes_here > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(case)
        size += bytes_here
    if batch:
        yield batch


def compiler_words(source):
    """The words before `-c` of the command in a generated file's first line."""
    with open(source) as text:
        return text.readline().lstrip("/ ").split(" -c ")[0].split()


class Batches:
    """Where batches are built and run: the folder of generated files, the runtime's folder, the file
    with the tests' tensors, and seconds for one test."""

    def __init__(self, folder, runtime, tensors, timeout):
        self.folder, self.runtime, self.tensors, self.timeout = folder, runtime, tensors, timeout

    def command(self, source):
        """What compiles a file like `source` to a shared library, without both."""
        words = compiler_words(self.folder / source)
        if source.endswith(".cu"):
            if "-split-compile" in words:  # several files are compiled side by side anyway
                at = words.index("-split-compile")
                words[at : at + 2] = []
            return [os.environ.get("NVCC", words[0]), *words[1:], "-shared", "-Xcompiler", "-fPIC"]
        machine = [word for word in words if re.match(r"-(m|f|pthread)", word)]
        return [os.environ.get("CXX", "c++"), "-std=c++17", "-O1", *machine, "-Werror", "-shared",
                "-fPIC"]  # fmt: skip

    def build(self, batch):
        """(library, standard error) of one translation unit with these models; no library after an
        error."""
        first = batch[0]
        unit = self.folder / f"batch_{first.prefix}{Path(first.source).suffix}"
        unit.write_text("".join(f'#include "{case.source}"\n' for case in batch))
        library = unit.with_suffix(".so")
        command = [*self.command(first.source), f"-I{self.folder}", f"-I{self.runtime}", str(unit),
                   "-o", str(library)]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
        except subprocess.TimeoutExpired:
            return None, f"error: {command[0]} has not finished after {BUILD_SECONDS} s"
        return (library if done.returncode == 0 else None), done.stdout + done.stderr

    def run(self, batch):
        """Yields (case, verdict, reason) of every test of a batch. Models that do not build are built
        alone; after a crash the run goes on behind the test that crashed."""
        library, errors = self.build(batch)
        if library is None:
            if len(batch) == 1:
                lines = [line for line in errors.splitlines() if re.search(r"\berror\b", line)]
                yield batch[0], "failed", (lines or ["the compiler crashed"])[0]
                return
            alone = blamed(batch, errors) or batch
            for case in alone:
                yield from self.run([case])
            rest = [case for case in batch if case not in alone]
            if rest:
                yield from self.run(rest)
            return
        todo = list(batch)
        while todo:
            for case, verdict, reason in self.call(library, list(todo)):
                yield case, verdict, reason
                todo.remove(case)
        library.unlink()

    def call(self, library, batch):
        """Runs a library's tests until all are done or one ends the process; yields as run."""
        manifest = library.with_suffix(".json")
        manifest.write_text(json.dumps([case.row() for case in batch]))
        command = [sys.executable, str(RUNNER), str(library), str(manifest), str(self.tensors)]
        # Unbuffered: what select does not see has not been written.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
        for case in batch:
            ready, _, _ = select.select([process.stdout], [], [], self.timeout)
            line = process.stdout.readline() if ready else b""
            if not line:
                process.poll() if ready else process.kill()
                status = process.wait()
                name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
                late = f"not finished after {self.timeout:g} s"
                yield case, "failed", f"killed by {name}" if ready else late
                return
            answer = json.loads(line)
            yield case, answer["verdict"], answer["reason"]
            if answer["last"]:
                break
        process.wait()


def blamed(batch, errors):
    """The models that the compiler's messages name, in the order of the batch."""
    named = set(re.findall(r"\b(\w+)\.(?:cpp|cu|h)[:(]\d+", errors))
    return [case for case in batch if case.prefix in named]
