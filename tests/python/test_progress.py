"""On a terminal a command says what it does, and after two seconds for how long; when it ends the line is
gone. In a pipe, and with -q, it says nothing of the kind.

usage: test_progress.py
"""

import os
import pty
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))

from tenon import binary, tenon

SLOW = """#!/bin/sh
sleep 4
exec c++ "$@"
"""
WORDS = ["run", str(ROOT / "examples/digits/digits.onnx"), "--target=cpu:generic"]


def on_terminal(words, environment):
    """What a command writes to a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(environment)
        os.execv(binary(), [str(binary()), *words])
    written = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux says so where the other end is closed
            break
        if not piece:
            break
        written += piece
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, written
    return written.decode()


def main():
    with tempfile.TemporaryDirectory(prefix="tenon-progress-") as folder:
        compiler = Path(folder) / "slow-c++"
        compiler.write_text(SLOW)
        compiler.chmod(0o755)
        environment = {"CXX": str(compiler)}
        written = on_terminal(WORDS, environment)
        lines = re.split(r"\r\x1b\[K", written)
        shown = [line for line in lines if line.startswith("building")]
        seconds = [int(s) for line in shown for s in re.findall(r"^building, (\d+) s$", line)]
        assert shown[0] == "building", lines
        assert seconds and seconds[0] == 2 and seconds == sorted(seconds) and len(seconds) >= 2, lines
        # The report begins on a line that was taken away.
        assert "nothing was compared" in lines[-1] and not re.search(r"building|interpreting|running", lines[-1]), lines
        assert "building" not in on_terminal([*WORDS, "-q"], environment)
        answer = tenon(*WORDS, environment=environment)
        assert answer.status == 0 and "building" not in answer.errors + answer.output, answer
    print("3 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
