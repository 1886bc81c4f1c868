"""Runs ONNX tests on a target whose code the system compiler builds: many generated files become
one shared library, which a child process (run_batch.py) loads and calls through the C interface.

Every test is compiled by `tenon compile` as a user would, except that the runtime's headers are
included, so that one translation unit parses them once for all its models."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from generated import symbol_bindings
from onnx_verdict import list_binds, read_values
from tenon import ROOT, build_flags, tenon

RUNNER = Path(__file__).with_name("run_batch.py")
RUNTIME = ROOT / "runtime"
# Models of one translation unit: as many as these bounds on their number and text allow.
MOST_MODELS, MOST_BYTES = 24, 160_000
BUILD_SECONDS = 600


@dataclass
class Case:
    """One test with the generated file that stands for it."""

    set: str
    folder: Path
    prefix: str
    bound: list = field(default_factory=list)
    source: Path = None

    @property
    def record(self):
        """What the child process has to know."""
        return {"prefix": self.prefix, "folder": str(self.folder), "header": str(self.source.with_suffix(".h"))}


def compile_case(case, model, target, words, scratch, timeout):
    """The answer of `tenon compile`; the symbols that declared inputs have get the test's extents."""
    case.source = scratch / f"{case.prefix}.cpp"
    arrays = read_values(case.folder, "input", model.graph.input)
    binds = [f"--bind={name}={extent}" for name, extent in symbol_bindings(model, arrays).items()]
    binds += list_binds(case.folder, model.graph.input)
    return tenon("compile", case.folder / "model.onnx", "-o", case.source, f"--prefix={case.prefix}",
                 f"--target={target}", "--runtime=include", "--weights=inline", *binds, *words,
                 timeout=timeout)  # fmt: skip


def batches(cases):
    """The cases in order, in lists that make one translation unit each."""
    batch, size = [], 0
    for case in cases:
        bytes_here = case.source.stat().st_size
        if batch and (len(batch) == MOST_MODELS or size + bytes_here > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(case)
        size += bytes_here
    if batch:
        yield batch


def build(batch, scratch):
    """(library, standard error) of one translation unit with these models; no library after an error."""
    unit = scratch / f"batch_{batch[0].prefix}.cpp"
    unit.write_text("".join(f'#include "{case.source.name}"\n' for case in batch))
    library = unit.with_suffix(".so")
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-O1", *build_flags(batch[0].source),
               "-ffp-contract=off", "-Werror", "-shared", "-fPIC", f"-I{scratch}", f"-I{RUNTIME}",
               str(unit), "-o", str(library)]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"error: {command[0]} has not finished after {BUILD_SECONDS} s"
    return (library if done.returncode == 0 else None), done.stderr


def blamed(batch, errors):
    """The models that the compiler's messages name, in the order of the batch."""
    named = set(re.findall(r"\b(\w+)\.(?:cpp|h):\d+", errors))
    return [case for case in batch if case.prefix in named]


def run_batch(batch, scratch, timeout):
    """Yields (case, verdict, reason) of every test of a batch. Models that do not build are built
    alone; after a crash the run goes on behind the test that crashed."""
    library, errors = build(batch, scratch)
    if library is None:
        if len(batch) == 1:
            lines = [line for line in errors.splitlines() if re.search(r"\berror\b", line)]
            yield batch[0], "failed", (lines or ["the C++ compiler crashed"])[0]
            return
        alone = blamed(batch, errors) or batch
        for case in alone:
            yield from run_batch([case], scratch, timeout)
        rest = [case for case in batch if case not in alone]
        if rest:
            yield from run_batch(rest, scratch, timeout)
        return
    todo = list(batch)
    while todo:
        for case, verdict, reason in call(library, list(todo), timeout):
            yield case, verdict, reason
            todo.remove(case)
    library.unlink()


def call(library, batch, timeout):
    """Runs a library's tests until all are done or one ends the process; yields as run_batch."""
    manifest = library.with_suffix(".json")
    manifest.write_text(json.dumps([case.record for case in batch]))
    process = subprocess.Popen([sys.executable, str(RUNNER), str(library), str(manifest)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)  # fmt: skip
    for case in batch:
        ready, _, _ = select.select([process.stdout], [], [], timeout)
        line = process.stdout.readline() if ready else ""
        if not line:
            process.poll() if ready else process.kill()
            status = process.wait()
            name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            yield case, "failed", f"killed by {name}" if ready else f"not finished after {timeout:g} s"
            return
        answer = json.loads(line)
        yield case, answer["verdict"], answer["reason"]
    process.wait()
