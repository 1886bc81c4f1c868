"""Install Tenon to an empty folder, build examples/app against it, and run that.

Checks too that a second build does nothing, that touching the model compiles it again,
and that the compiler links nothing dynamically.

usage: test_package.py CMAKE
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

cmake = sys.argv[1]
source = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
build = pathlib.Path(os.environ["TENON_BUILD_DIR"])
results = []


def run(*command: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        print(done.stdout)
        print(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    done.check_returncode()
    return done.stdout


def check(what: str, holds: bool, detail: str = "") -> None:
    results.append(holds)
    print(f"{'ok' if holds else 'FAILED'}: {what}" + (f"\n{detail}" if not holds else ""))


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = folder / "prefix"
        run(cmake, "--install", build, "--prefix", prefix)
        check("bin/tenon is installed", os.access(prefix / "bin" / "tenon", os.X_OK))
        if "TENON_STATIC:BOOL=ON" in (build / "CMakeCache.txt").read_text() \
                and "TENON_SANITIZE:BOOL=ON" not in (build / "CMakeCache.txt").read_text():
            size = (prefix / "bin" / "tenon").stat().st_size
            check("tenon is below 20 MB", size < 20_000_000, f"{size} bytes")
            kind = run("readelf", "-d", prefix / "bin" / "tenon")
            check("tenon is fully static", "There is no dynamic section" in kind, kind)

        # A copy of the examples alone: nothing of the source tree may be needed.
        shutil.copytree(source / "examples", folder / "examples")
        app = folder / "app"
        run(cmake, "-G", "Ninja", "-S", folder / "examples" / "app", "-B", app,
            f"-DCMAKE_PREFIX_PATH={prefix}")  # fmt: skip
        first = run(cmake, "--build", app)
        check("the application builds without warnings", "warning" not in first, first)
        said = run(app / "app")
        check("the application recognises its digit", said.startswith("this is a 3 ("), said)
        again = run(cmake, "--build", app)
        check("a second build does nothing", "no work to do" in again, again)
        # Options of Tenon that look like the compiler's are not.
        lists = folder / "examples" / "app" / "CMakeLists.txt"
        lists.write_text(lists.read_text().replace("TARGET ${MODEL_TARGET}",
                                                   "TARGET ${MODEL_TARGET} OPTIONS -O1"))
        run(cmake, "--build", app)
        flags = (app / "tenon" / "app" / "digits.flags").read_text().split()
        check("the compiler's level is not Tenon's", "-O2" in flags and "-O1" not in flags,
              " ".join(flags))
        (folder / "examples" / "digits" / "digits.onnx").touch()
        touched = run(cmake, "--build", app)
        check("a changed model is compiled again", "Compiling" in touched, touched)
    return 0 if all(results) else 1


if __name__ == "__main__":
    try:
        status = main()
    except subprocess.CalledProcessError:
        results.append(False)
        status = 1
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    sys.exit(status)
