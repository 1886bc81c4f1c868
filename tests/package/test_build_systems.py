"""Build a program by the words that docs/c-interface.md has for Make and for Meson.

The document's blocks are taken as they stand, its C and C++ functions among them, around a model with the names
that they use.

usage: test_build_systems.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import onnx

source = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
tenon = pathlib.Path(os.environ["TENON"])
document = (source / "docs" / "c-interface.md").read_text()
results, skipped = [], 0

MAIN_C = """
int main(void) {
  static float image[NET_IMAGE_SIZE], scores[NET_SCORES_SIZE];
  float sum = 0;
  int i;
  if (infer(image, scores) != NET_OK)
    return 1;
  for (i = 0; i < NET_SCORES_SIZE; ++i)
    sum += scores[i];
  printf("%.3f\\n", (double)sum);
  return 0;
}
"""
MAIN_CPP = """
#include <cstdio>
int main() {
  std::vector<float> image(NET_IMAGE_SIZE);
  std::array<float, NET_SCORES_SIZE> scores{};
  const bool short_is_refused = infer({}, scores).code() == NET_INVALID_ARGUMENT;
  const bool runs = infer(image, scores).ok();
  float sum = 0;
  for (float score : scores)
    sum += score;
  std::printf("%d %d %.3f\\n", short_is_refused, runs, sum);
}
"""


def block(language):
    """The document's first block of that language."""
    return re.search(rf"^```{language}\n(.*?)^```", document, re.DOTALL | re.MULTILINE).group(1)


def run(*command, folder):
    words = [str(word) for word in command]
    path = f"{tenon.parent}{os.pathsep}{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "PATH": path})  # fmt: skip
    if done.returncode != 0:
        print(done.stdout)
        print(f"failed with {done.returncode}: {' '.join(words)}")
    done.check_returncode()
    return done.stdout


def check(what, holds, detail=""):
    results.append(holds)
    print(f"{'ok' if holds else 'FAILED'}: {what}" + (f"\n{detail}" if not holds else ""))


def project(parent, name):
    """A folder with the model, whose output is called `scores`, and the program around it."""
    folder = parent / name
    folder.mkdir()
    model = onnx.load(source / "examples" / "digits" / "digits.onnx")
    output = model.graph.output[0]
    for node in model.graph.node:
        node.output[:] = ["scores" if name == output.name else name for name in node.output]
    output.name = "scores"
    onnx.save(model, folder / "net.onnx")
    (folder / "main.c").write_text(block("c") + MAIN_C)
    return folder


def check_make(parent):
    folder = project(parent, "make")
    (folder / "Makefile").write_text(block("make"))
    run("make", "net.o", folder=folder)
    compiler = os.environ.get("CC", "cc")
    run(compiler, "-std=c89", "-pedantic", "-Wall", "-Werror", "main.c", "net.o", "-o", "app", folder=folder)
    said = run("./app", folder=folder)
    check("Make: the document's C function runs, linked by a C compiler", said == "1.000\n", said)
    (folder / "main.cpp").write_text(block("cpp") + MAIN_CPP)
    run(os.environ.get("CXX", "c++"), "-std=c++17", "-Wall", "-Werror", "main.cpp", "net.o", "-o", "app17", folder=folder)
    said = run("./app17", folder=folder)
    check("Make: the document's C++ function runs", said == "1 1 1.000\n", said)
    again = run("make", "net.o", folder=folder)
    check("Make: a second build does nothing", "up to date" in again, again)


def check_meson(parent):
    folder = project(parent, "meson")
    (folder / "meson.build").write_text(block("meson"))
    run("meson", "setup", "build", folder=folder)
    built = run("meson", "compile", "-C", "build", folder=folder)
    check("Meson: the project builds without warnings", "warning" not in built.lower(), built)
    said = run("build/app", folder=folder)
    check("Meson: the document's C function runs", said == "1.000\n", said)
    again = run("ninja", "-C", "build", folder=folder)
    check("Meson: a second build does nothing", "no work to do" in again, again)
    (folder / "net.onnx").touch()
    touched = run("ninja", "-C", "build", folder=folder)
    check("Meson: a changed model is compiled again", "Generating net" in touched, touched)


def main():
    global skipped
    with tempfile.TemporaryDirectory() as name:
        parent = pathlib.Path(name)
        if shutil.which("make"):
            check_make(parent)
        else:
            skipped += 1
            print("skipped: make is not installed")
        check_meson(parent)
    return 0 if all(results) else 1


if __name__ == "__main__":
    try:
        status = main()
    except subprocess.CalledProcessError:
        results.append(False)
        status = 1
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, {skipped} skipped")
    sys.exit(status)
