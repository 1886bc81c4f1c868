"""The page of `tenon inspect --format=html`, opened in Chromium without a network: it draws its graph, tables
and pictures from the data in it, whatever names a model has, estimated or measured, with the proof of
Tensor Cores where one was asked for.

usage: test_report.py [--keep FOLDER]   (FOLDER gets the pages and pictures of them)
"""

import collections
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from tenon import tenon

DIGITS = ROOT / "examples/digits/digits.onnx"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Names that would be markup, were they pasted into it.
HOSTILE = """module "</script><img src=x onerror=alert(1)>" stage=imported {
  graph @main (%x "<b>in&</b>": tensor<1x8x6x6xf32>) -> ("</script>out") {
    %w = constant {value = splat<8x8x3x3xf32: 0.25>} : tensor<8x8x3x3xf32>
    %c = conv %x, %w {pads = [1, 1, 1, 1]} : tensor<1x8x6x6xf32> loc("<i>conv</i>\\"'")
    %y = map %c (%a: f32) {
      %r = relu %a : f32
      yield %r
    } : tensor<1x8x6x6xf32> loc("a_name_of_many_words/" , "very_long_names_are_shortened_in_their_middle/so_that_both_ends_stay/Relu_17")
    return %y
  }
}
"""


class Page(html.parser.HTMLParser):
    """What stands in a document: the attributes of elements by tag, and text by the tag around it."""

    def __init__(self, document):
        super().__init__()
        self.elements, self.texts, self.open = collections.defaultdict(list), collections.defaultdict(list), []
        self.joins = False
        self.feed(document)

    def handle_starttag(self, tag, attributes):
        self.elements[tag].append(dict(attributes))
        self.joins = tag == "wbr"  # where a name may break: it stays one text
        if not self.joins:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, text):
        if self.joins:
            self.texts[self.open[-1]][-1] += text.rstrip()
        elif self.open and text.strip():
            self.texts[self.open[-1]].append(text.strip())
        self.joins = False

    def classes(self, tag):
        return [e.get("class") or "" for e in self.elements[tag]]


def browse(browser, page, *words, home):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={home}",
               "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", *words, page]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def colours(png):
    """The number of different rows of pixels in a picture: a blank page has few."""
    data, at, packed = pathlib.Path(png).read_bytes(), 8, b""
    width = int.from_bytes(data[16:20], "big")
    channels = {2: 3, 6: 4}[data[25]]
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        packed += data[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    raw, stride = zlib.decompress(packed), 1 + width * channels
    return len({raw[i : i + stride] for i in range(0, len(raw), stride)})


class Checks:
    def __init__(self, browser, folder):
        self.browser, self.folder, self.done, self.failures = browser, folder, 0, []

    def that(self, holds, what):
        self.done += 1
        if not holds:
            self.failures.append(what)

    def opened(self, name, model, *words, step=None):
        """The page of a model as the browser has it once it is drawn."""
        path = self.folder / f"{name}.html"
        answer = tenon("inspect", model, "--format=html", "-o", path, *words)
        self.that(answer.status == 0, f"{name}: {answer.reason}")
        if answer.status:
            return Page("")
        text = path.read_text()
        self.that(not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)|@import|@DATA@", text.split('type="application/json"')[0] + text.rsplit("</script>", 2)[1].replace("href: `#", "")),
                  f"{name}: the page names something outside of it")  # fmt: skip
        home = self.folder / "home"
        address = path.as_uri() + (f"#step={step}" if step is not None else "")
        shown = browse(self.browser, address, "--dump-dom", home=home)
        page = Page(shown.stdout)
        root = (page.elements["html"] or [{}])[0]
        self.that(root.get("data-ready") == "yes" and "data-error" not in root, f"{name}: {root}: {re.findall('CONSOLE.*', shown.stderr)[:2]}")
        picture = self.folder / f"{name}.png"
        browse(self.browser, address, f"--screenshot={picture}", "--window-size=1500,2200", home=home)
        self.that(picture.exists() and colours(picture) > 300, f"{name}: the picture is blank")
        return page


def drawn(checks, name, page, document):
    """That a page shows all layers of `tenon inspect --json`."""
    layers = [l for l in document["layers"] if l["variant"] == document["variants"][0]["name"]]
    nodes = [e for e in page.elements["g"] if (e.get("class") or "").startswith("node")]
    steps = {e["data-step"] for e in nodes if e["data-step"]}
    checks.that(steps == {str(l["step"]) for l in layers}, f"{name}: boxes for {sorted(steps)}")
    ports = len([e for e in nodes if "port" in e["class"]])
    checks.that(ports == len(document["inputs"]) + len(document["outputs"]), f"{name}: {ports} ports")
    checks.that(page.classes("path").count("edge") >= len(layers), f"{name}: too few edges")
    rows = {e["data-step"] for e in page.elements["tr"] if "data-step" in e}
    checks.that(rows == steps, f"{name}: rows for {sorted(rows)}")
    for heading in ("Overview", "Graph", "Layers", "Roofline", "Memory over time", "Fusion", "Model"):
        checks.that(heading in page.texts["h2"], f"{name}: no {heading}")
    checks.that("total" in page.texts["td"], f"{name}: no total")
    checks.that(sum(c.startswith("dot") for c in page.classes("circle")) == sum(l["macs"] > 0 for l in layers), f"{name}: dots of the roofline")
    slabs = [b for b in document["memory"][0]["buffers"] if b["home"] == "arena" and b["bytes"] > 0]
    checks.that(sum(c.startswith("slab") for c in page.classes("rect")) == len(slabs), f"{name}: slabs of the arena")


def document(model, *words):
    return json.loads(tenon("inspect", model, "--format=json", *words).output)


def run(checks):
    target = "--target=cpu:generic"
    page = checks.opened("digits", DIGITS, target, step=4)
    drawn(checks, "digits", page, document(DIGITS, target))
    checks.that("digits.onnx" in page.texts["h1"], "digits: the title")
    checks.that(any("Step 4" in text for text in page.texts["h3"]), "digits: step 4 is not chosen")
    checks.that(sum("chosen" in c for c in page.classes("tr")) == 1, "digits: the chosen row")
    checks.that(any("estimated" in text for text in page.texts["span"]), "digits: estimates are not called so")
    checks.that("1x1x8x8xf32" in page.texts["text"], "digits: shapes between boxes")
    summary = tenon("compile", DIGITS, target, "-o", checks.folder / "digits.cpp").output
    weights = re.search("^weights  ([^,]*),", summary, re.M)[1]
    checks.that(weights in page.texts["b"], f"digits: weights are not {weights}, as the command says")

    checks.that(not any("Extents are open" in text for text in page.texts["p"]), "digits: fixed extents are called open")

    page = checks.opened("open", DIGITS, target, "--shape=image=N,1,8,8", "--range=N=1..4")
    checks.that(any("open: N in 1..4" in text for text in page.texts["p"]), "open: the bounds of N")

    profile = checks.folder / "profile.json"
    profile.write_text(tenon("bench", DIGITS, "--target=cpu:native", "--profile", "--json", "--seconds=0.1").output)
    page = checks.opened("measured", DIGITS, "--target=cpu:native", "--profile", profile)
    checks.that(any(text.endswith("measured") for text in page.texts["span"]), "measured: times are not called so")

    hostile = checks.folder / "hostile.tn"
    hostile.write_text(HOSTILE)
    page = checks.opened("hostile", hostile, target)
    drawn(checks, "hostile", page, document(hostile, target))
    for tag in ("img", "i"):
        checks.that(not page.elements[tag], f"hostile: a name became <{tag}>")
    checks.that(any("<b>in&</b>" in text for text in page.texts["text"]), "hostile: the input's name")
    shortened = [text for text in page.texts["span"] if "…" in text and text.endswith("Relu_17")]
    checks.that(shortened, "hostile: the long name is not shortened in its middle")

    decoder, config = checks.folder / "decoder.onnx", checks.folder / "config.json"
    config.write_text(json.dumps({"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 32,
                                  "intermediate_size": 64, "vocab_size": 64, "max_position_embeddings": 128}))  # fmt: skip
    subprocess.run([sys.executable, ROOT / "examples/llm/random_decoder.py", decoder, config], check=True, capture_output=True)
    page = checks.opened("decoder", decoder, target, "--decoder=64")
    found = document(decoder, target, "--decoder=64")
    steps = [e["data-step"] for e in page.elements["g"] if e.get("data-step")]
    first = [str(l["step"]) for l in found["layers"] if "entry" not in l]
    checks.that(sorted(steps) == sorted(first), f"decoder: {len(steps)} boxes for {len(first)} steps of the first graph")
    graphs = [f"{v['name']}, runs of {v['runs']}" for v in found["variants"]]
    checks.that(len(graphs) > 1 and page.texts["option"] == graphs, f"decoder: graphs {page.texts['option']}")

    two = "--target=cuda:sm_80+sm_90a"
    page = checks.opened("cuda", DIGITS, two, "--precision=fp16")
    drawn(checks, "cuda", page, document(DIGITS, two, "--precision=fp16"))
    checks.that(page.texts["option"] == ["cuda:sm_80", "cuda:sm_90a"], f"cuda: variants {page.texts['option']}")
    for tool in ("nvcc", "cuobjdump"):  # where scripts/setup puts what a machine lacks
        folder = ".cuda" if tool == "nvcc" else ".cuobjdump"
        if not shutil.which(tool) and (ROOT / folder / "bin" / tool).exists():
            os.environ[tool.upper()] = str(ROOT / folder / "bin" / tool)
    page = checks.opened("proof", DIGITS, "--target=cuda:sm_80", "--precision=fp16", "--tensor-cores")
    checks.that("Tensor Cores" in page.texts["h2"], "proof: no section")
    checks.that(any("HMMA" in text for text in page.texts["td"]), "proof: no instructions")


def main():
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if not browser:
        sys.exit("no Chromium to open pages in: scripts/setup brings it")
    with tempfile.TemporaryDirectory(prefix="tenon-report-") as scratch:
        folder = pathlib.Path(sys.argv[2] if sys.argv[1:2] == ["--keep"] else scratch)
        folder.mkdir(parents=True, exist_ok=True)
        checks = Checks(browser, folder)
        run(checks)
    for what in checks.failures:
        print("FAIL", what)
    print(f"{checks.done - len(checks.failures)} passed, {len(checks.failures)} failed, 0 skipped")
    sys.exit(1 if checks.failures else 0)


if __name__ == "__main__":
    main()
