"""What the documents show is what happens, and what they link to exists.

A block fenced as `console` is run: each line `$ COMMAND`, in a folder with `examples/` and `build/tenon` that the
blocks of one document share, and what it prints is compared with the lines below it, up to the next command. A
command without such lines may print anything. `…` stands for any text within a line, a line `…` for any lines.
A block after `<!-- file: NAME -->` becomes that file; one after `<!-- excerpt: NAME -->` has to be found in that
file, with the same freedom. Commands must succeed; a line `$ COMMAND    # fails` must not. A document that
begins with `<!-- needs: MODULE... -->` needs more than the project's requirements: where Python does not have
those, its links alone are looked at.

usage: test_documents.py [FILE...]
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
TENON = pathlib.Path(os.environ["TENON"])
FENCE = re.compile(r"(?:<!-- (file|excerpt): (\S+) -->\n)?^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NEEDS = re.compile(r"<!-- needs: ([\w ]+) -->\n")
FAILS = re.compile(r"\s+# fails$")


def pattern(lines: list[str]) -> re.Pattern:
    """Lines of a document as an expression over text whose lines all end."""
    parts = []
    for line in lines:
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            words = [re.escape(word) for word in line.rstrip().split("…")]
            parts.append(r"[^\n]*?".join(words) + r"[^\S\n]*\n")
    return re.compile("".join(parts))


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it is shown to print."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0][:-1] + line.strip(), [])
        elif found:
            found[-1][1].append(line)
    return found


def run_document(path: pathlib.Path) -> list[str]:
    """What is wrong with the blocks of one document."""
    text, wrong = path.read_text(), []
    blocks = [match for match in FENCE.finditer(text) if match[1] or match[3] == "console"]
    if not blocks:
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples")
        (folder / "build").mkdir()
        (folder / "build" / "tenon").symlink_to(TENON)
        environment = dict(os.environ, PATH=f"{TENON.parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
        for match in blocks:
            where = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start(3)) + 1}"
            kind, file, _, body = match.groups()
            if kind == "file":
                (folder / file).write_text(body)
                continue
            if kind == "excerpt":
                written = (folder / file).read_text()
                if not pattern(body.splitlines()).search(written):
                    wrong.append(f"{where}: {file} does not hold this excerpt")
                continue
            for command, expected in commands(body):
                fails = FAILS.search(command) is not None
                done = subprocess.run(
                    ["bash", "-c", FAILS.sub("", command)], cwd=folder, env=environment, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                )  # fmt: skip
                printed = "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())
                if (done.returncode != 0) != fails:
                    wrong.append(f"{where}: `{command}` ended with {done.returncode}:\n{printed}")
                elif any(line.strip() for line in expected) and not pattern(expected).fullmatch(printed):
                    wrong.append(f"{where}: `{command}` printed something else:\n{printed}")
    return wrong


def absent_modules(path: pathlib.Path) -> list[str]:
    needs = NEEDS.match(path.read_text())
    return [name for name in needs[1].split() if importlib.util.find_spec(name) is None] if needs else []


def anchors(path: pathlib.Path) -> set[str]:
    """The names by which headings are linked to, as GitHub and MkDocs make them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    names = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        names.add(name)
        names.add(re.sub(r"-+", "-", name))
    return names


def dead_links(path: pathlib.Path) -> list[str]:
    wrong = []
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        if ":" in target:  # the web is not asked
            continue
        file = (path.parent / target) if target else path
        if not file.exists():
            wrong.append(f"{path.relative_to(ROOT)}: no {target}")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            wrong.append(f"{path.relative_to(ROOT)}: {target or 'it'} has no heading #{anchor}")
    return wrong


def check_the_check() -> list[str]:
    """The comparison tells texts apart: else it could not fail."""
    block = ["arena    …", "…", "wrote x"]
    same, other = "arena    12 bytes\nany\nthing\nwrote x\n", "arena    12 bytes\nwrote y\n"
    if pattern(block).fullmatch(same) and not pattern(block).fullmatch(other):
        return []
    return ["the comparison of printed text does not work"]


documents = [pathlib.Path(word).resolve() for word in sys.argv[1:]] or [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]  # fmt: skip
results = [check_the_check()]
for document in documents:
    results.append(dead_links(document))
    if missing := absent_modules(document):
        print(f"{document.relative_to(ROOT)}: its commands are not run, python3 has no {', '.join(missing)}")
    else:
        results.append(run_document(document))
for lines in results:
    print("".join(line + "\n" for line in lines), end="")
failed = sum(1 for lines in results if lines)
print(f"{len(results) - failed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
