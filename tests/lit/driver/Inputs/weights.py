"""A file of weights that cannot be written leaves all files as they were; a pipe gets the bytes of a file.

usage: weights.py TENON MODEL FOLDER
"""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading

tenon, model, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])


def compile(place: pathlib.Path, *options: str, **how) -> subprocess.CompletedProcess:
    """Files of `place`/net."""
    place.mkdir(exist_ok=True)
    command = [tenon, "compile", model, "-o", str(place / "net.cu"), "--target=cuda:sm_80", "--weights=file", *options]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, **how)


def contents(place: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


def small_files() -> None:
    """No file may be larger than the weights' first page."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def too_large() -> None:
    failed = folder / "failed"
    for before in ({}, None):  # nothing stands there, then what a compilation wrote
        if before is None:
            assert compile(failed).returncode == 0
            before = contents(failed)
        done = compile(failed, "--kernels=1", preexec_fn=small_files)
        assert done.returncode == 1, done.returncode
        assert f"error: cannot write '{failed / 'net.weights'}': File too large" in done.stderr, done.stderr
        assert contents(failed) == before, sorted(contents(failed))


def full_device() -> None:
    place = folder / "full"
    place.mkdir()
    (place / "net.weights").symlink_to("/dev/full")
    done = compile(place)
    assert done.returncode == 1, done.returncode
    assert f"error: cannot write '{place / 'net.weights'}': No space left on device" in done.stderr, done.stderr
    assert os.listdir(place) == ["net.weights"], os.listdir(place)


def through_pipe() -> None:
    assert compile(folder / "file").returncode == 0
    expected = contents(folder / "file")
    place = folder / "pipe"
    place.mkdir()
    os.mkfifo(place / "net.weights")
    got = []
    reader = threading.Thread(target=lambda: got.append((place / "net.weights").read_bytes()))
    reader.start()
    assert compile(place).returncode == 0
    reader.join()
    (place / "net.weights").unlink()
    assert {**contents(place), "net.weights": got[0]} == expected
    assert len(got[0]) > 1 << 16  # more than a pipe holds


too_large()
full_device()
through_pipe()
