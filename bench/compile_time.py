#!/usr/bin/env python3
"""Times `tenon compile` on decoders whose weights are large: seconds by stage and resident memory.

    bench/compile_time.py [--layers=2,4] [--precisions=fp16,int4,fp32] [--vocabulary=N] [--target=T]
                          [--against TENON] [--repeat=N] [--models DIR] [--json FILE]

The models are Llama-3.2-1B with so many of its layers as bench/decoders.py writes it, one token behind a past
of 1,024, all extents fixed; sixteen layers in fp16 make a file of 2.5 GB. --models keeps the models for the next
time.

Stages are told apart by what the compiler says on a terminal about its progress, so that their times are
those of a user. --against runs another compiler in turns with this one; figures are medians, and the two
must write the same bytes: the status is 1 where they do not.
"""

import argparse
import hashlib
import json
import os
import pty
import re
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "bench")]
from project_venv import require

require("numpy", "onnx")

import decoders

STAGE = re.compile(rb"\r\x1b\[K(optimising|scheduling|writing code)")
PAST = 1024


def run(tenon, model, target, folder):
    """Seconds by stage, and MiB resident at most, of one compilation."""
    command = [str(tenon), "compile", str(model), f"--target={target}", "-o", str(folder / "decoder.cu")]
    begun = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(command[0], command)
    said, text = [], b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # what Linux says once the other end is closed
            break
        if not part:
            break
        text += part
        for stage in STAGE.findall(text)[len(said) :]:
            said.append((time.monotonic(), stage.decode()))
    os.close(terminal)
    _, status, usage = os.wait4(child, 0)
    ended = time.monotonic()
    if status != 0:
        sys.exit(f"{' '.join(command)} fails:\n{text.decode(errors='replace')}")
    stages, at = {}, begun
    for (when, _), stage in zip(said + [(ended, "")], ["reading"] + [stage for _, stage in said]):
        stages[stage] = stages.get(stage, 0) + when - at
        at = when
    # ru_maxrss counts what this process held when it forked, too: models are made in another one.
    return {"seconds": ended - begun, "processor_seconds": usage.ru_utime + usage.ru_stime,
            "stages": stages, "resident_mib": usage.ru_maxrss / 1024}  # fmt: skip


def digest(folder):
    return {path.name: hashlib.file_digest(path.open("rb"), "sha256").hexdigest() for path in sorted(folder.iterdir())}


def median(runs):
    names = {name: None for r in runs for name in r["stages"]}
    of = lambda key: statistics.median(r[key] for r in runs)  # noqa: E731
    return {"seconds": of("seconds"), "processor_seconds": of("processor_seconds"), "resident_mib": of("resident_mib"),
            "stages": {name: statistics.median(r["stages"].get(name, 0) for r in runs) for name in names}}  # fmt: skip


def make(path, layers, precision, vocabulary):
    """In a process of its own, whose memory goes with it."""
    config = replace(decoders.MODELS["llama-3.2-1b"], layers=layers, vocabulary=vocabulary, positions=4096)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            decoders.write(path, config, precision, PAST)
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"{path}: cannot be written")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="2,4")
    parser.add_argument("--precisions", default="fp16,int4,fp32")
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--tenon", type=Path, default=ROOT / "build/tenon")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    compilers = [options.tenon] + ([options.against] if options.against else [])
    rows, same = [], True
    with tempfile.TemporaryDirectory() as temporary:
        models = options.models or Path(temporary)
        models.mkdir(parents=True, exist_ok=True)
        for precision in options.precisions.split(","):
            for layers in map(int, options.layers.split(",")):
                model = models / f"llama_1b_{precision}_{layers}_{options.vocabulary}.onnx"
                if not model.exists():
                    make(model, layers, precision, options.vocabulary)
                size = model.with_name(model.name + ".data").stat().st_size
                runs, digests = [[] for _ in compilers], []
                for _ in range(options.repeat):
                    for tenon, list_ in zip(compilers, runs):
                        with tempfile.TemporaryDirectory(dir=temporary) as folder:
                            list_.append(run(tenon.resolve(), model, options.target, Path(folder)))
                            digests.append(digest(Path(folder)))
                for tenon, list_ in zip(compilers, runs):
                    row = {"model": model.stem, "weights_mib": size / 2**20, "tenon": str(tenon), **median(list_)}
                    rows.append(row)
                    stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in row["stages"].items())
                    print(f"{row['model']:26} {size / 2**20:7.0f} MiB {row['seconds']:8.2f} s "
                          f"{row['resident_mib']:7.0f} MiB resident   {stages}   {tenon}", flush=True)  # fmt: skip
                if any(d != digests[0] for d in digests):
                    same = False
                    print(f"{model.stem}: the files differ")
                if not options.models:
                    model.unlink()
                    model.with_name(model.name + ".data").unlink()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
