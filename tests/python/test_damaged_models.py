"""Damaged models through the compiler: whatever the bytes, exit status 0 or 1, a message for each
failure, and nothing written then. Importer and passes are put through many more copies in one process
(tests/unit/mutation).

usage: test_damaged_models.py [COPIES [SEED]]    default: 300 copies in one process, 40 commands
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

root = pathlib.Path(os.environ.get("TENON_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
build = pathlib.Path(os.environ.get("TENON_BUILD_DIR", root / "build"))
tenon = os.environ.get("TENON") or str(build / "tenon")
copies_test = build / "tests/unit/unit_mutation"
COMMANDS = 40


def damage(data: bytes, rng: random.Random) -> bytes:
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        at, length = rng.randrange(len(data)), rng.randint(1, 64)
        kind = rng.randrange(5)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            source = rng.randrange(len(data))
            data[at:at] = data[source : source + length]
        else:
            del data[at:]
    return bytes(data)


def many_copies(copies: int, seed: int) -> str:
    """The message of a failed run of the mutation test; empty when it passed."""
    environment = dict(
        os.environ, TENON_MUTATIONS=str(copies), TENON_MUTATION_SEED=str(seed)
    )
    done = subprocess.run(
        [copies_test], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return "" if done.returncode == 0 else done.stdout[-4000:]


def command(model: bytes, folder: pathlib.Path) -> str:
    """What is wrong with the answer to one damaged model; empty when nothing is."""
    source, target = folder / "model.onnx", folder / "out.tn"
    source.write_bytes(model)
    done = subprocess.run(
        [tenon, "opt", source, "--passes=canonicalize,fold,cse,dce", "-o", target],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        errors="replace", text=True, timeout=120,
    )  # fmt: skip
    written = sorted(p.name for p in folder.iterdir() if p != source)
    for path in folder.iterdir():
        path.unlink()
    if done.returncode not in (0, 1):
        return f"exit status {done.returncode}: {done.stderr[-2000:]}"
    if done.returncode == 1 and "error:" not in done.stderr:
        return f"no message: {done.stderr[-2000:]}"
    if done.returncode == 1 and written:
        return f"written in spite of an error: {written}"
    return ""


def main() -> int:
    copies = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    passed = failed = 0
    problem = many_copies(copies, seed)
    if problem:
        failed += 1
        print(f"FAIL importer and passes, {copies} copies, seed {seed}:\n{problem}")
    else:
        passed += 1
    rng = random.Random(seed)
    original = (root / "examples/digits/digits.onnx").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(COMMANDS):
            problem = command(damage(original, rng), pathlib.Path(folder))
            if problem:
                failed += 1
                print(f"FAIL command {number}, seed {seed}: {problem}")
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
