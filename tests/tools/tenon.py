"""How the scripts reach the compiler: where it is, how it is called, what it answers.
Standard library only, so that the scripts also run where no package is installed."""

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def binary():
    """The tenon binary: TENON, else build/tenon."""
    return Path(os.environ.get("TENON") or ROOT / "build/tenon").resolve()


@dataclass
class Answer:
    """What one `tenon` command did."""

    status: int
    output: str
    errors: str
    seconds: float

    @property
    def document(self):
        """The JSON document on standard output, or an empty one."""
        try:
            parsed = json.loads(self.output)
        except json.JSONDecodeError:
            return {}
        return parsed if isinstance(parsed, dict) else {}

    @property
    def reason(self):
        """Why it failed, in one line."""
        if self.status == TIMED_OUT:
            return f"not finished after {self.seconds:.0f} s"
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        lines = [line for line in self.errors.splitlines() if line.strip()]
        errors = [line for line in lines if "error:" in line]
        return (errors or lines or [f"exit status {self.status}"])[0].strip()


TIMED_OUT = 124


def tenon(*words, timeout=600, environment=None, compiler=None):
    """Runs the compiler (another binary than that of `binary()`: `compiler`) in a session of its own, so that a timeout ends its children, too."""
    command = [str(compiler or binary()), *(str(word) for word in words)]
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        output, errors = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        status = TIMED_OUT
    return Answer(status, output, errors, time.monotonic() - start)


def build_flags(source):
    """The words that the head of a generated file asks the compiler for: machine and threads."""
    head = re.match(r"(?:\s*//[^\n]*\n)+", Path(source).read_text(errors="replace"))
    words = head.group().split() if head else []
    return [word for word in words if re.match(r"-(m|f|pthread)", word)]


def model_file(folder):
    """The one ONNX file of a model folder, or None."""
    named = folder / "model.onnx"
    if named.exists():
        return named
    found = sorted(folder.glob("*.onnx"))
    return found[0] if len(found) == 1 else None


def table(rows, columns, out):
    """Prints rows (dictionaries) under right-aligned headings; numbers keep four digits."""

    def text(value):
        if value is None:
            return "-"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    cells = [columns] + [[text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        first = line[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        print("  ".join([first, *rest]), file=out)
