"""Full and closed standard streams are errors or nothing, never a crash; signals leave no folder.

usage: streams.py TENON MODEL FOLDER
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

tenon, model, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])


def full() -> None:
    with open("/dev/full", "w") as out:
        done = subprocess.run([tenon, "passes"], stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1, done.returncode
    assert done.stderr.startswith("error: cannot write standard output: "), done.stderr


def closed(number: int) -> None:
    output = folder / f"closed{number}.cpp"
    command = [tenon, "compile", model, "-o", str(output)]
    done = subprocess.run(command, preexec_fn=lambda: os.close(number))
    assert done.returncode == 0, (number, done.returncode)
    # What would have gone to the stream must not stand in a file.
    assert output.read_text().startswith("// c++ "), number


def interrupted(number: signal.Signals) -> None:
    temporary = folder / number.name
    temporary.mkdir()
    compiler = temporary / "cxx"
    compiler.write_text("#!/bin/sh\nsleep 60\n")
    compiler.chmod(0o755)
    process = subprocess.Popen(
        [tenon, "run", model],
        env={**os.environ, "TMPDIR": str(temporary), "CXX": str(compiler)},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # test runners may ignore it
    )
    for _ in range(200):
        if list(temporary.glob("tenon-*/model.cpp")):
            break
        time.sleep(0.05)
    else:
        raise AssertionError("no temporary folder was seen")
    os.killpg(process.pid, number)
    assert process.wait() == -number, (number, process.returncode)
    assert os.listdir(temporary) == ["cxx"], os.listdir(temporary)


full()
for stream in (0, 1, 2):
    closed(stream)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    interrupted(number)
