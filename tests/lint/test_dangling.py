"""The rule of dangling.query finds what dangling.cpp marks, and nothing else there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
source = HERE / "dangling.cpp"
query = shutil.which("clang-query-14") or shutil.which("clang-query")
done = subprocess.run(
    [query, "-f", HERE / "dangling.query", source, "--", "-std=c++20", "-w",
     "-isystem", "/usr/lib/llvm-14/include"],
    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
)  # fmt: skip
found = {int(n) for n in re.findall(r'dangling\.cpp:(\d+):\d+: note: "dangling" binds', done.stdout)}
marked = {n for n, line in enumerate(source.read_text().splitlines(), 1) if "// dangling" in line}
wrong = found ^ marked
for n in sorted(wrong):
    print(f"FAIL line {n}: {'not found' if n in marked else 'found, though it is right'}")
if not marked or "error:" in done.stdout:
    print(done.stdout)
    wrong.add(0)
print(f"{len(marked - wrong)} passed, {len(wrong)} failed, 0 skipped")
sys.exit(1 if wrong else 0)
