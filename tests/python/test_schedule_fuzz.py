"""Schedules that somebody edited, at random: keys dropped, doubled, invented and changed, kernels and whole
schedules exchanged. Each is compiled, or refused with exit status 1 and a message that names the group, the
kernel, and the key or the schedule. No key is accepted that the kernel does not have, and estimates are finite.

The modules are those of tests/cuda, small models of tests/models and what these have not (tests/schedules),
scheduled for several targets; kernels that are never chosen come up where those that were are switched off.
Every kernel of `tenon passes` has to be tried.

usage: test_schedule_fuzz.py [--cases=N] [--seed=N] [--only=GLOB] [--jobs=N] [-v]
       default: 400 cases; 10000 is a thorough run. GLOB: of kernels, "cuda:gemv*"
"""

import argparse
import collections
import fnmatch
import itertools
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
sys.path.insert(0, str(ROOT / "tests/python"))

from project_venv import require

require("numpy", "onnx")

from tenon import tenon
from test_cuda_emulated import cases as cuda_cases
from test_cuda_emulated import with_literals

CPU = ["cpu:generic", "cpu:x86-64-v3", "cpu:x86-64-v4"]
MCU = ["mcu:generic", "mcu:cortex-m4", "mcu:cortex-m55"]
CUDA = ["cuda:sm_75", "cuda:sm_80", "cuda:sm_90a"]
# What models are scheduled for, one after another.
SETTINGS = [[f"--target={t}"] for t in CPU + MCU + CUDA]
SETTINGS += [["--target=mcu:generic", "--optimize=size"]]
SETTINGS += [[f"--target={t}", f"--precision={p}"] for t in CUDA[1:] for p in ("fp16", "tf32", "tf32x3")]
MODELS = ["keyword_micro_fp32", "keyword_dscnn_int4", "keyword_dscnn_qdq", "autoencoder_qdq", "attention_qdq",
          "probe_qdq_conv", "corner_windows", "corner_functions", "probe_data_extents"]  # fmt: skip
SITES = 6  # of a kernel, those of the shortest modules
ROUNDS = 6  # how often the kernels of a module are switched off

def write_modules(folder):
    """[(path, options)] of what is scheduled."""
    found = []
    for name, text, target, words, _ in cuda_cases("*"):
        path = folder / f"{name}.tn"
        text, data = with_literals(text, random.Random(name))
        path.write_text(text)
        Path(f"{path}.data").write_bytes(data)
        words = [w for w in words if not w.startswith(("--tolerance", "--group-tolerance"))]
        found.append((path, [f"--target={target}", *words]))
        if name.endswith(".0"):
            found += [(path, setting) for setting in SETTINGS]
    subprocess.run([sys.executable, ROOT / "tests/models/make.py", folder / "models"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    for name in MODELS:
        found += [(folder / "models" / name / "model.onnx", setting) for setting in SETTINGS]
    found.append((ROOT / "tests/lit/driver/Inputs/text.tn", ["--target=cpu:generic"]))
    for path in sorted((ROOT / "tests/schedules").glob("*.tn")):
        found += [(path, setting) for setting in SETTINGS]
    return found


SCHEDULE = re.compile(r"schedule = (\w+)<([^>]*)>")


def written(tactic, params):
    return f"{tactic}<{', '.join(f'{k}={v}' for k, v in params)}>"


class Site:
    """A group's schedule in a scheduled module."""

    def __init__(self, text, data, target, start, end, tactic, params):
        self.text, self.data, self.target = text, data, target
        self.start, self.end, self.tactic = start, end, tactic
        self.params = [tuple(p.split("=")) for p in params.split(", ")] if params else []
        self.family = "cuda" if target.startswith("cuda") else "cpu"
        self.id = f"{self.family}:{tactic}"

    def edited(self, tactic, params):
        return f"{self.text[: self.start]}schedule = {written(tactic, params)}{self.text[self.end :]}"


def sites_of(module, folder):
    """Schedules for a module, and those that it gets where the kernels of earlier ones are switched off."""
    path, words = module
    target = next(w for w in words if w.startswith("--target")).split("=")[1]
    found, seen = [], set()
    for _ in range(ROUNDS):
        disabled = ["--disable=" + ",".join(f"tactic.{s}" for s in sorted(seen))] if seen else []
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            out = Path(scratch) / "out.tn"
            if tenon("compile", path, "--emit=tn", "--stage=scheduled", "-q", "-o", out, *words, *disabled).status:
                break
            text = out.read_text()
            side = Path(f"{out}.data")
            data = side.read_bytes() if side.exists() else None
        its = [Site(text, data, target, m.start(), m.end(), m[1], m[2]) for m in SCHEDULE.finditer(text)]
        fresh = {s.tactic for s in its} - seen
        found += [s for s in its if s.tactic in fresh]
        if not fresh:
            break
        seen |= fresh
    return found


VALUES = [0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 48, 64, 96, 100, 128, 256, 512, 1024, 2**20, 2**31 - 1, 2**31, 2**32,
          2**62, 2**63 - 1, -1, -8, -(2**63)]  # fmt: skip


def new_value(value, rng):
    near = [int(value) + 1, int(value) - 1, 2 * int(value), int(value) // 2]
    return str(rng.choice(near if rng.random() < 0.4 else VALUES))


def edit(site, peers, rng):
    """(what was done, tactic, params, words that a refusal has one of, whether it has to be refused)."""
    params = list(site.params)
    kinds = ["unknown", "swap", "exchange", "none"]
    kinds += ["drop", "double", "value", "value", "value", "values", "order"] if params else []
    kind = rng.choice(kinds)
    at = rng.randrange(len(params)) if params else 0
    if kind == "drop":
        key, _ = params.pop(at)
        return kind, site.tactic, params, [key], False
    if kind == "double":
        key, value = params[at]
        params.insert(rng.randrange(len(params) + 1), (key, rng.choice([value, "1"])))
        return kind, site.tactic, params, [key], True
    if kind == "unknown":
        params.insert(rng.randrange(len(params) + 1), ("banana", rng.choice(["7", "0", "1"])))
        return kind, site.tactic, params, ["banana"], True
    if kind in ("value", "values"):
        for at in [at] if kind == "value" else range(len(params)):
            params[at] = (params[at][0], new_value(params[at][1], rng))
        return kind, site.tactic, params, [f"{k}={v}" for k, v in params], False
    if kind == "order":
        rng.shuffle(params)
        return kind, site.tactic, params, [], None
    if kind == "none":
        return kind, site.tactic, params, [], None
    other = rng.choice(peers)
    return kind, other.tactic, params if kind == "swap" else list(other.params), [other.tactic], False


def complaint(site, change, folder):
    """None, or what is wrong with the compiler's answer."""
    kind, tactic, params, words, refused = change
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch) / "edited.tn"
        path.write_text(site.edited(tactic, params))
        if site.data is not None:
            Path(f"{path}.data").write_bytes(site.data)
        suffix = "cu" if site.family == "cuda" else "cpp"
        answer = tenon("compile", path, f"--target={site.target}", "--runtime=include", "--json", "-o",
                       Path(scratch) / f"out.{suffix}", timeout=60)  # fmt: skip
    if answer.status == 0:
        if refused:
            return "accepted"
        estimate = answer.document.get("summary", {}).get("estimated_us", 0)
        if estimate is None or not math.isfinite(estimate) or estimate < 0:
            return f"an estimate of {estimate} us"
        return None
    messages = answer.errors + json.dumps(answer.document)
    if answer.status != 1:
        return f"exit status {answer.status}: {messages[:400]}"
    if refused is None:
        return f"refused: {answer.reason}"
    if not re.search(r"\(group\)|error: group:", messages) or tactic not in messages:
        return f"the message names no group or kernel: {messages[:400]}"
    if re.search(r"\b(inf|nan)\b", messages):
        return f"numbers that are none: {messages[:400]}"
    if words and not any(w in messages for w in words):
        return f"the message has none of {', '.join(words)}: {messages[:400]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    table = [f"{family}:{tactic}" for tactic, family in
             re.findall(r"^tactic\.(\S+) .*\((\w+)\)$", tenon("passes").output, re.MULTILINE)]  # fmt: skip
    failures = []
    with tempfile.TemporaryDirectory(prefix="tenon-schedules-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        folder = Path(folder)
        os.chdir(folder)  # where reproducers of defects are left
        sites = collections.defaultdict(list)
        for found in pool.map(lambda m: sites_of(m, folder), write_modules(folder)):
            for site in found:
                sites[site.id].append(site)
        for name in sites:
            sites[name] = sorted(sites[name], key=lambda s: len(s.text))[:SITES]
        asked = [t for t in table if fnmatch.fnmatchcase(t, options.only)]
        if not asked:
            sys.exit(f"no kernel is called {options.only}")
        tried = [t for t in asked if sites[t]]

        rng = random.Random(options.seed)
        work = []
        for name in itertools.islice(itertools.cycle(tried), options.cases):
            site = rng.choice(sites[name])
            peers = [s for t in tried for s in sites[t] if s.family == site.family]
            work.append((site, edit(site, peers, rng)))
        counts = collections.Counter()
        for (site, change), wrong in zip(work, pool.map(lambda w: complaint(*w, folder), work)):
            counts[site.id] += 1
            if wrong:
                kind, tactic, params, *_ = change
                failures.append(f"{site.id}, {site.target}, {kind}: {written(tactic, params)}: {wrong}")
    for failure in failures[:40]:
        print(failure)
    missing = [t for t in asked if not counts[t]]
    if missing:
        print(f"never tried: {', '.join(missing)}")
    if options.v:
        for name, count in counts.items():
            print(f"{name}: {count}")
    print(f"{sum(counts.values())} schedules of {len(counts)} kernels, {len(failures)} failures")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
