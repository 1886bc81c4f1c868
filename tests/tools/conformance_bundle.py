#!/usr/bin/env python3
"""A bundle of conformance tests: what a machine with a GPU needs to run those of a CUDA target.
`scripts/conformance --bundle=DIR` writes it; on the other machine

    python3 DIR/run [--jobs=N] [--timeout=S] [--json FILE] [--list FILE]

builds and runs all tests and prints what passed, failed, and did not compile. FILE of --json receives
the rows, that of --list the tests that passed, as tests/conformance/TARGET.txt has them. That machine
needs nvcc, and python3 with numpy.

    run             this file
    tools, runtime  the modules that it imports, the headers that generated files include
    cases.tar.xz    the generated files, cases.json, and tensors.bin with what goes in and comes out
"""

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
TOOLS = ("batches.py", "generated.py", "run_batch.py", "tenon.py")
VERDICTS = ("passed", "failed", "unsupported")


def write(out, scratch, target, compiled, rows):
    """Writes the bundle of the tests `compiled`, whose files lie in `scratch`; `rows` are the verdicts
    on tests that do not compile."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "tools").mkdir(parents=True)
    for name in TOOLS:
        shutil.copy(HERE / name, out / "tools" / name)
    shutil.copytree(HERE.parents[1] / "runtime", out / "runtime")
    shutil.copy(__file__, out / "run")
    index = {"target": target, "cases": [case.row() for case in compiled], "rows": rows}
    (scratch / "cases.json").write_text(json.dumps(index))
    with tarfile.open(out / "cases.tar.xz", "w:xz", preset=6) as archive:
        names = {"cases.json", "tensors.bin"}
        for case in compiled:
            names |= {case.source, str(Path(case.source).with_suffix(".h"))}
        for name in sorted(names):
            archive.add(scratch / name, arcname=name)


def entry(row):
    """A test's line in the list of those that pass."""
    suffix = f" bind={','.join(row['bind'])}" if row["bind"] else ""
    return f"{row['set']}/{row['test']}{suffix}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=30, help="seconds for one test")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--list", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if importlib.util.find_spec("numpy") is None:
        sys.exit("run: needs numpy")
    sys.path.insert(0, str(HERE / "tools"))
    from batches import Batches, Case, batches
    from tenon import table

    os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"
    with tempfile.TemporaryDirectory(prefix="tenon-conformance-") as name:
        folder = Path(name)
        with tarfile.open(HERE / "cases.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        index = json.loads((folder / "cases.json").read_text())
        rows = index["rows"]
        runner = Batches(folder, HERE / "runtime", folder / "tensors.bin", arguments.timeout)
        units = list(batches([Case.of(row) for row in index["cases"]], folder))
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for results in pool.map(lambda batch: list(runner.run(batch)), units):
                rows += [{"set": case.set, "test": case.test, "verdict": verdict,
                          "bind": case.bound, "reason": reason}
                         for case, verdict, reason in results]  # fmt: skip

    rows.sort(key=entry)
    for row in rows:
        if row["verdict"] == "failed":
            print(f"failed: {row['set']}/{row['test']}: {row['reason'][:150]}")
    counts = Counter((row["set"], row["verdict"]) for row in rows)
    totals = [
        {"set": name, **{v: counts[name, v] for v in VERDICTS},
         "total": sum(counts[name, v] for v in VERDICTS)}
        for name in sorted({row["set"] for row in rows})
    ]  # fmt: skip
    totals.append({"set": "all", **{key: sum(t[key] for t in totals) for key in (*VERDICTS, "total")}})
    table(totals, ["set", *VERDICTS, "total"], sys.stdout)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if arguments.list:
        passed = [entry(row) for row in rows if row["verdict"] == "passed"]
        arguments.list.write_text("\n".join(passed) + "\n")


if __name__ == "__main__":
    main()
