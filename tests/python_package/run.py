"""Build the wheel of the Python package, install it to an empty folder, and run checks_*.py against it.

usage: run.py CMAKE [CHECKS...]

TENON_PYTHON_CHECKS names the interpreter that runs the checks, for those that need more packages than the
project's: TENON_PYTHON_CHECKS=DIR/bin/python3 tests/python_package/run.py cmake torch
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get("TENON_SOURCE_DIR") or HERE.parents[1])
BUILD = pathlib.Path(os.environ.get("TENON_BUILD_DIR") or SOURCE / "build")
ELSEWHERE = ("cuda", "jax", "serve", "torch", "triton")  # they need a GPU, or packages that requirements.txt does not have
cmake, *wanted = sys.argv[1:]


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **more)  # fmt: skip
    if done.returncode != 0:
        print(done.stdout)
        print(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    return done


def build_wheel(folder):
    """The wheel of the tree's library, by what `pip install` does, without a network."""
    prefix = folder / "prefix"
    if run(cmake, "--install", BUILD, "--prefix", prefix).returncode != 0:
        return None
    config = next(prefix.glob("lib*/**/TenonConfig.cmake")).parent
    launcher = shutil.which("ccache")
    words = ["-Cbuild-dir=" + str(folder / "build"), f"-Ccmake.define.Tenon_DIR={config}",
             *([f"-Ccmake.define.CMAKE_CXX_COMPILER_LAUNCHER={launcher}"] if launcher else [])]  # fmt: skip
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "CXX": os.environ.get("TENON_CXX", "c++")}
    done = run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
               "--disable-pip-version-check", "-w", folder / "wheel", *words, SOURCE / "python", env=environment)  # fmt: skip
    return None if done.returncode else next((folder / "wheel").glob("*.whl"))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = build_wheel(folder)
        if wheel is None:
            return "0 passed, 1 failed, 0 skipped"
        site = folder / "site"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        (site / "tenon/bin/tenon").chmod(0o755)
        # Not the checks' folder alone: what the tests' tools call tenon.py is not the package.
        environment = {key: value for key, value in os.environ.items() if key != "TENON"}
        environment |= {"PYTHONPATH": str(site), "TENON_CACHE": str(folder / "cache"), "TENON_SOURCE_DIR": str(SOURCE)}
        python = os.environ.get("TENON_PYTHON_CHECKS") or sys.executable
        passed = failed = skipped = 0
        names = sorted(path.stem.removeprefix("checks_") for path in HERE.glob("checks_*.py"))
        for checks in wanted or [name for name in names if name not in ELSEWHERE]:
            done = subprocess.run([python, "-W", "ignore", "-m", "unittest", "-v", f"checks_{checks}"], cwd=HERE, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
            print(done.stdout)
            ran = int((re.findall(r"^Ran (\d+) tests?", done.stdout, re.M) or [0])[0])
            counts = {kind: int(n) for kind, n in re.findall(r"(failures|errors|skipped)=(\d+)", done.stdout)}
            wrong = counts.get("failures", 0) + counts.get("errors", 0)
            if ran == 0 or (done.returncode != 0 and wrong == 0):
                wrong, ran = wrong + 1, ran + 1
            failed, skipped = failed + wrong, skipped + counts.get("skipped", 0)
            passed += ran - wrong - counts.get("skipped", 0)
        return f"{passed} passed, {failed} failed, {skipped} skipped"


if __name__ == "__main__":
    verdict = main()
    print(verdict)
    sys.exit(" 0 failed" not in verdict)
