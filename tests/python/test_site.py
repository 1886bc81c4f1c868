"""The site is built of all documents, without a dead link; and what would be wrong with it is found."""

import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
loader = importlib.machinery.SourceFileLoader("docs", str(ROOT / "scripts/docs"))
docs = importlib.util.module_from_spec(importlib.util.spec_from_loader("docs", loader))
loader.exec_module(docs)
zensical = ROOT / ".venv-docs/bin/zensical"
failures: list[str] = []
checked = 0


def check(what: str, holds: bool) -> None:
    global checked
    checked += 1
    if not holds:
        failures.append(what)


if not zensical.exists():
    sys.exit(f"{zensical} is missing: scripts/setup brings it")
with tempfile.TemporaryDirectory() as name:
    work = pathlib.Path(name)
    wrong = docs.gather(work / "source")
    check(f"pages and their order differ: {wrong}", not wrong)
    complaints = docs.build(work, zensical)
    check(f"the site was not built: {complaints}", not complaints)
    site = work / "site"
    for page in docs.NAV.findall((ROOT / "docs/mkdocs.yml").read_text()):
        built = site / (page[: -len("README.md")] if page.endswith("README.md") else page[: -len(".md")]) / "index.html"
        check(f"{page} became no {built}", built.exists())
    command_line = (site / "docs/reference/command-line/index.html").read_text()
    check("the command line's page has no --precision", "--precision" in command_line)
    python = (site / "docs/reference/python/index.html").read_text()
    check("the page of the Python package lacks Module.set_dims", "set_dims" in python)
    check("it lacks the errors of the loaded code", "RunError" in python)

    said = (work / "source/docs/reference/messages.md").read_text()
    check("the messages lack what a misspelt dimension is told", "| `… names '…', which the model has not: every extent of" in said)
    check("they lack remedies", "| `compile where the GPU is, name another target" in said and said.count("` | `") > 100)
    check("they lack the Python package's", "there is no option '…'" in said)

    page = work / "source/docs/text.md"
    text = page.read_text()
    page.write_text(text + "\n[somewhere](nowhere.md)\n")
    check("a dead link is not found", "nowhere.md" in docs.build(work, zensical))
    page.write_text(text + "\n[somewhere](states.md#no-such-heading)\n")
    check("a dead anchor is not found", "no-such-heading" in docs.build(work, zensical))
print("".join(f"{failure}\n" for failure in failures), end="")
print(f"{checked - len(failures)} passed, {len(failures)} failed, 0 skipped")
sys.exit(bool(failures))
