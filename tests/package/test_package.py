"""Install Tenon to an empty folder, build examples/app and examples/embed against it, and run those.

The application is built for a GPU, too, and run on an emulated microcontroller.
Checks too that a second build does nothing, that touching the model compiles it again, that the compiler
links nothing dynamically, that the library shows its own functions only, and that it writes what the command
writes.

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


def check_library(folder: pathlib.Path, prefix: pathlib.Path) -> None:
    for archive in "libtenon.a", "libtenon_shared_parts.a":
        library = prefix / "lib" / archive
        if not library.exists():  # multiarch folders
            library = next(prefix.glob(f"lib*/**/{archive}"))
        size = library.stat().st_size
        check(f"{archive} is below 28 MB", size < 28_000_000, f"{size} bytes")
        names = run("nm", "--defined-only", "--extern-only", "--demangle", library).splitlines()
        shown = sorted({line.split(" ", 2)[2].split("(")[0] for line in names if " " in line})
        check(f"{archive} shows its interface only",
              shown == ["tenon::InterpretedModel::interface", "tenon::InterpretedModel::load",
                        "tenon::InterpretedModel::reset", "tenon::InterpretedModel::run",
                        "tenon::InterpretedModel::~InterpretedModel", "tenon::compile", "tenon::targets",
                        "tenon::toString[abi:cxx11]", "tenon::version"],
              "\n".join(names))  # fmt: skip
    embed = folder / "embed"
    run(cmake, "-G", "Ninja", "-S", folder / "examples" / "embed", "-B", embed,
        f"-DCMAKE_PREFIX_PATH={prefix}")  # fmt: skip
    built = run(cmake, "--build", embed)
    check("the program around the library builds without warnings", "warning" not in built, built)
    model = folder / "examples" / "digits" / "digits.onnx"
    for target, suffix in ("cpu:generic", "cpp"), ("cuda:sm_80", "cu"):
        written = folder / suffix / f"model.{suffix}"
        written.parent.mkdir()
        run(prefix / "bin" / "tenon", "compile", model, "-o", written, f"--target={target}",
            "--weights=inline", "-q")  # fmt: skip
        printed = subprocess.run([embed / "embed", model, target], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)  # fmt: skip
        check(f"the library writes what the command does for {target}",
              printed.returncode == 0 and printed.stdout == written.read_bytes(), printed.stderr.decode())
    refused = subprocess.run([embed / "embed", model, "cpu:z80"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)  # fmt: skip
    check("a target that does not exist is a message",
          refused.returncode == 1 and not refused.stdout and "'cpu:z80'" in refused.stderr, refused.stderr)


WEIGHTS = """
set_source_files_properties(weights.c PROPERTIES COMPILE_OPTIONS "-Wall;-Wextra;-Werror")
add_executable(filed weights.c)
tenon_add_model(filed ../digits/digits.onnx TARGET cpu:generic WEIGHTS file THREADS 2)
tenon_install_weights(filed DESTINATION share/filed)
"""
WEIGHTS_C = """
#include "digits.h"
#include <stdio.h>
int main(int count, char **words) {
  digits_options options = DIGITS_OPTIONS_INIT;
  digits_model *model;
  digits_context *context;
  options.weights_path = count > 1 ? words[1] : DIGITS_WEIGHTS_PATH;
  if (digits_model_open(&options, &model) != DIGITS_OK || digits_context_create(model, &context) != DIGITS_OK)
    return 1;
  printf("%d threads, weights in %s\\n", digits_context_threads(context), DIGITS_WEIGHTS_FILE);
  digits_context_destroy(context);
  digits_model_close(model);
  options.weights_path = "nowhere";
  puts(digits_error_message(digits_model_open(&options, &model)));
  return 0;
}
"""


def check_weights_file(folder: pathlib.Path, app: pathlib.Path) -> None:
    """A model whose weights lie in a file of their own, which is found, installed, and written again."""
    sources = folder / "examples" / "app"
    (sources / "weights.c").write_text(WEIGHTS_C)
    lists = sources / "CMakeLists.txt"
    lists.write_text(lists.read_text() + WEIGHTS)
    run(cmake, "--build", app)
    said = run(app / "filed")
    check("a program finds its weights file and has its threads",
          said.startswith("2 threads, weights in digits.weights"), said)
    check("an error names the weights file", "the weights file, digits.weights, cannot be read" in said, said)
    run(cmake, "--install", app, "--prefix", folder / "installed")
    installed = folder / "installed" / "share" / "filed" / "digits.weights"
    check("the weights file is installed", installed.stat().st_size > 0)
    check("and serves from there", "2 threads" in run(app / "filed", installed))
    (app / "tenon" / "filed" / "digits.weights").unlink()
    run(cmake, "--build", app)
    check("a weights file that was deleted is written again", "2 threads" in run(app / "filed"))
    again = run(cmake, "--build", app)
    check("a build with a weights file does nothing twice", "no work to do" in again, again)


def check_cuda(folder: pathlib.Path, prefix: pathlib.Path) -> None:
    """The same program for a GPU, as far as a compiler goes."""
    if not shutil.which("nvcc"):
        print("skipped: nvcc is not installed")
        return
    app = folder / "app-cuda"
    run(cmake, "-G", "Ninja", "-S", folder / "examples" / "app", "-B", app, f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DMODEL_TARGET=cuda:sm_80")  # fmt: skip
    built = run(cmake, "--build", app, "--target", "app", "--verbose")
    check("the application builds for a GPU without warnings", "warning" not in built, built)
    flags = (app / "tenon" / "app" / "digits.flags").read_text().split("\n")
    check("nvcc gets the flags of the first line",
          "-fmad=false" in flags and "-Xfatbin=-compress-all" in flags and "--options-file" in built,
          " ".join(flags))  # fmt: skip


def check_firmware(folder: pathlib.Path, prefix: pathlib.Path) -> None:
    """The same program, unchanged, on an emulated microcontroller."""
    if not all(map(shutil.which, ("make", "arm-none-eabi-gcc", "qemu-system-arm"))):
        print("skipped: the tools for emulated boards are not installed")
        return
    said = run("make", "-C", folder / "examples" / "firmware", "app", "BOARD=m4",
               f"TENON={prefix / 'bin' / 'tenon'}", f"BUILD={folder / 'board'}")  # fmt: skip
    check("the application recognises its digit on a Cortex-M4", "this is a 3 (" in said, said)


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
        check_library(folder, prefix)
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
        check_cuda(folder, prefix)
        check_firmware(folder, prefix)
        check_weights_file(folder, app)
    return 0 if all(results) else 1


if __name__ == "__main__":
    try:
        status = main()
    except subprocess.CalledProcessError:
        results.append(False)
        status = 1
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    sys.exit(status)
