"""The fuzz targets of bytes, fuzz_importer and fuzz_parser (tests/fuzz): files to begin with,
dictionaries, and runs of libFuzzer that minimise what they find."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx

ROOT = Path(__file__).resolve().parents[2]
LARGEST_SEED = 1 << 16
TARGETS = ("importer", "parser")
# What a unit may take under sanitizers before it counts as a finding.
SECONDS, MEGABYTES = 60, 3072
GRAMMAR = """module stage imported optimized scheduled fact symbol graph target state append loc tensor seq
optional host nhwc nwc ndhwc dense splat data elided bits lists floats dims strings true false nan inf
-inf floordiv ceildiv mod min max yield return -> .. {} () [] <> ! @ % 9223372036854775807
-9223372036854775808 4294967296""".split()


def write(folder, name, data):
    if 0 < len(data) <= LARGEST_SEED:
        (folder / name).write_bytes(data)


def model_seeds(folder, graphs):
    """Models of all kinds: random graphs, the project's own ones, onnx's tests where they are."""
    from fuzz_graphs import random_model

    sys.path.insert(0, str(ROOT / "tests/models"))
    import corners
    import probes

    for seed in range(graphs):
        write(folder, f"graph{seed}", random_model(seed)[0].SerializeToString())
    for module in (corners, probes):
        for name, make in vars(module).items():
            if not callable(make) or getattr(make, "__module__", "") != module.__name__:
                continue
            try:
                made = make()
            except TypeError:  # a helper
                continue
            model = made[0] if isinstance(made, tuple) else made
            if isinstance(model, onnx.ModelProto):
                write(folder, name, model.SerializeToString())
    write(folder, "digits", (ROOT / "examples/digits/digits.onnx").read_bytes())
    for path in sorted((ROOT / "build/conformance").glob("*/*/model.onnx")):
        write(folder, path.parent.name, path.read_bytes())


def text_seeds(folder):
    for path in sorted((ROOT / "tests").glob("**/*.tn")):
        write(folder, path.name, path.read_bytes())
    # Tests of other kinds hold modules, too.
    for path in sorted((ROOT / "tests/unit").glob("**/*.cpp")):
        for number, text in enumerate(re.findall(r'R"\(?(module "(?:.|\n)*?)\)"', path.read_text())):
            write(folder, f"{path.stem}{number}", text.encode())


def write_seeds(target, folder, graphs=64):
    """Files that a target begins with, written to `folder` afresh."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model_seeds(folder, graphs) if target == "importer" else text_seeds(folder)
    return len(list(folder.iterdir()))


def words(target):
    """What stands in inputs literally."""
    if target == "importer":
        tables = (ROOT / "frontend/onnx").glob("*.cpp")
        found = {word for path in tables for word in re.findall(r'"([A-Za-z_]\w+)"', path.read_text())}
        return sorted(found)
    ops = "".join((ROOT / f"ir/{name}.def").read_text() for name in ("Ops", "Scalars"))
    named = re.findall(r'TENON_\w+\(\w+,\s*"([^"]+)"', ops)
    keys = {word for path in (ROOT / "ir/ops").glob("*.cpp") for word in re.findall(r'\{"(\w+)", AttrKind', path.read_text())}
    elements = re.findall(r'"(\w{2,12})"', (ROOT / "ir/Element.cpp").read_text())
    return sorted({*GRAMMAR, *named, *keys, *elements})


def write_dictionary(target, path):
    path.write_text("".join(f'"{word}"\n' for word in words(target)))


def fuzz(target, folder, work, seconds, seed):
    """Runs libFuzzer for `seconds` on one core; the paths of what it found, minimised. The corpus stays
    in `work`, so that another run goes on from there."""
    program = folder / f"tests/fuzz/fuzz_{target}"
    corpus, seeds, finds = (work / f"{target}-{kind}" for kind in ("corpus", "seeds", "finds"))
    for path in (corpus, finds):
        path.mkdir(parents=True, exist_ok=True)
    print(f"{write_seeds(target, seeds)} files to begin with", flush=True)
    dictionary = work / f"{target}.dict"
    write_dictionary(target, dictionary)
    limits = [f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}", f"-malloc_limit_mb={MEGABYTES}"]
    before = set(finds.iterdir())
    subprocess.run([program, *limits, f"-max_total_time={seconds}", f"-seed={seed}", f"-dict={dictionary}",
                    f"-artifact_prefix={finds}/", f"-max_len={LARGEST_SEED}", "-print_final_stats=1",
                    "-report_slow_units=20", corpus, seeds])  # fmt: skip
    found = sorted(path for path in set(finds.iterdir()) - before if not path.name.startswith("slow-unit"))
    for path in found:
        small = path.with_name(f"{path.name}.minimised")
        subprocess.run([program, *limits, "-minimize_crash=1", "-runs=4000", "-max_total_time=60",
                        f"-exact_artifact_path={small}", path],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        if small.exists():
            path = small
        print(f"finding: {program} {path}", flush=True)
    return found
