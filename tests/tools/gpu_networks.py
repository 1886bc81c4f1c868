#!/usr/bin/env python3
"""Compares whole networks, compiled for this machine's GPU, with torch in fp64.

    tests/tools/gpu_networks.py [--filter=GLOB,...] [--random=N] [--first=SEED] [--every-precision]
                                [--precision=fp16,bf16,fp32,tf32x3] [--jobs=N] [--keep DIR] [--json FILE]
                                [--export-only]

Networks: torchvision's families, each at two sizes and at batches 3 and 5, the networks of
bench/networks.py, and N random ones (random_networks.py). Precisions take turns, so that each network
runs in two of them (a random one in one); --every-precision runs all.

A network passes when its output is no further from fp64 than twice what torch is in the same precision
(fp32 beside tf32x3), both computing on the same weights and inputs, and when a second run gives the same
bits. Errors are relative to the largest value; below one rounding of the output's type none counts.
Outputs are filled with NaN before each run. `scripts/gpu-check --part=networks` runs this.
"""

import argparse
import fnmatch
import gc
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/tools"), str(ROOT / "bench")]
sys.dont_write_bytecode = True
from project_venv import require

require("torch", "torchvision", "onnx")

import gpu
import networks
import torch
from random_networks import RandomNetwork
from tenon import table
from torchvision import models

PRECISIONS = ("fp16", "bf16", "fp32", "tf32x3")
# One rounding of the output's type.
ROUNDING = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-22, "tf32x3": 2.0**-22}
MOST = 2.0  # times torch's error
# Their smallest member and one that has more of the family's forms; two sizes of an image.
USUAL, ODD = (224, 224), (161, 199)
FAMILIES = {
    **dict.fromkeys(
        ("convnext_tiny", "densenet121", "densenet161", "efficientnet_b0", "efficientnet_b3",
         "efficientnet_v2_s", "googlenet", "mnasnet0_5", "mnasnet1_3", "mobilenet_v2", "mobilenet_v3_large",
         "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "regnet_y_1_6gf", "regnet_x_3_2gf",
         "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "shufflenet_v2_x0_5",
         "shufflenet_v2_x1_5", "squeezenet1_0", "squeezenet1_1", "swin_t", "swin_v2_t"), (USUAL, ODD)),
    # Pools to a fixed size can be exported from its multiples alone.
    "alexnet": (USUAL,),
    "vgg11_bn": (USUAL, (224, 448)),
    "inception_v3": ((299, 299), (107, 139)),
    "maxvit_t": (USUAL,),
    "vit_b_16": (USUAL, (96, 96)),
    "fcn_resnet50": ((128, 128), (97, 131)),
    "deeplabv3_resnet50": ((128, 128), (97, 131)),
    "deeplabv3_mobilenet_v3_large": (USUAL, ODD),
    "lraspp_mobilenet_v3_large": (USUAL, ODD),
}  # fmt: skip
OWN = {"unet": ((256, 256), (112, 144)), "detector": ((320, 320), (192, 256)), "tracker": None,
       "bert_128": None, "gpt2_1024": None}  # fmt: skip


@dataclass(frozen=True)
class Case:
    network: str
    shape: tuple  # of one input, without the batch; of random networks it follows from the seed
    batch: int
    precision: str

    @property
    def name(self):
        size = "x".join(map(str, self.shape[1:])) if self.shape else "own"
        return f"{self.network}_{size}_b{self.batch}_{self.precision}"

    @property
    def target_words(self):
        return [f"--precision={self.precision}"] if self.precision.startswith("tf32") else []


def all_cases(options):
    """Every case asked for, in a fixed order."""
    sizes = [(name, [(3, *side) for side in sides]) for name, sides in FAMILIES.items()]
    sizes += [(name, [(3, *side) for side in sides] if sides else [networks.NETWORKS[name].shape])
              for name, sides in OWN.items()]  # fmt: skip
    sizes += [(f"random_{seed}", [()]) for seed in range(options.first, options.first + options.random)]
    found = []
    for index, (network, shapes) in enumerate(sizes):
        if not any(fnmatch.fnmatchcase(network, glob) for glob in options.filter.split(",")):
            continue
        for at, shape in enumerate(shapes):
            chosen = PRECISIONS if options.every_precision else [PRECISIONS[(index + 2 * at) % 4]]
            if not options.every_precision and network in OWN and len(shapes) == 1:
                chosen = PRECISIONS[:2]
            found += [Case(network, shape, (3, 5)[(index + at) % 2], precision)
                      for precision in chosen if precision in options.precision.split(",")]  # fmt: skip
    return found


def make(case):
    """(module in fp32 on the CPU, shape of one input)."""
    torch.manual_seed(11)
    if case.network.startswith("random_"):
        module = RandomNetwork(int(case.network[7:]))
        return networks.settle(module, torch.randn(4, *module.shape)), module.shape
    if case.network in OWN:
        return networks.settle(networks.NETWORKS[case.network].make(), torch.randn(2, *case.shape)), case.shape
    words = {"weights": None}
    if case.network in ("googlenet", "inception_v3"):
        words |= {"init_weights": False, "aux_logits": False}
    if case.network.startswith("vit_"):
        words["image_size"] = case.shape[1]
    if case.network.startswith(("fcn", "deeplab", "lraspp")):
        words["weights_backbone"] = None
    module = models.get_model(case.network, **words)
    if case.network.startswith(("fcn", "deeplab", "lraspp")):
        module = networks.First(module, "out")
    return networks.settle(module, torch.randn(2, *case.shape)), case.shape


def inputs_of(case, shape):
    torch.manual_seed(13)
    return torch.randn(case.batch, *shape).to(gpu.DTYPES[case.precision])


def prepare(case, folder, target):
    """Exports, compiles and builds one case in a process of its own: what went wrong, or None."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        path = Path(folder) / f"{case.name}.onnx"
        with torch.no_grad():
            module, shape = make(case)
            module = module.to(gpu.DTYPES[case.precision])
            torch.save((module, shape), path.with_suffix(".pt"))
            networks.export(module, inputs_of(case, shape), path)
        if target:
            gpu.build(path, path.with_suffix(".cu"), [f"--target={target}", *case.target_words], gpu.binary())
    except Exception as failure:
        return "".join(traceback.format_exception_only(failure)).strip().splitlines()[0][:200]
    return None


def compare(case, folder):
    """The row of a case that was built."""
    path = Path(folder) / f"{case.name}.onnx"
    module, shape = torch.load(path.with_suffix(".pt"), weights_only=False)
    module, inputs = module.cuda(), inputs_of(case, shape).cuda()
    with torch.no_grad():
        theirs = module(inputs)
        reference = module.double()(inputs.double())
    peer = gpu.Tenon("tenon", path.with_suffix(".so"), inputs, theirs)
    runs = []
    for _ in range(2):
        peer.output.fill_(float("nan"))
        peer.run()
        torch.cuda.synchronize()
        runs.append(peer.output.clone())
    peer.close()
    error, torch_error = gpu.relative_error(runs[0], reference), gpu.relative_error(theirs, reference)
    bound = max(MOST * torch_error, ROUNDING[case.precision])
    same = bool(torch.equal(runs[0].view(torch.uint8), runs[1].view(torch.uint8)))
    return {"error": error, "torch_error": torch_error, "ratio": error / max(torch_error, 1e-30),
            "same_bits": same, "pass": same and error <= bound}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--filter", default="*")
    parser.add_argument("--random", type=int, default=84)
    parser.add_argument("--first", type=int, default=0, help="seed of the first random network")
    parser.add_argument("--precision", default=",".join(PRECISIONS))
    parser.add_argument("--every-precision", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--export-only", action="store_true", help="only export; needs no GPU")
    options = parser.parse_args()
    target = None
    if not options.export_only:
        major, minor = torch.cuda.get_device_capability()
        target = f"cuda:sm_{major}{minor}{'a' if major >= 9 else ''}"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    cases = all_cases(options)
    started, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="tenon-networks-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            waiting = [(case, pool.submit(prepare, case, folder, target)) for case in cases]
            for case, prepared in waiting:
                row = {"network": case.name}
                try:
                    why = prepared.result()
                    row |= {"note": why, "pass": False} if why else {} if options.export_only else compare(case, folder)
                except Exception as failure:  # a network that fails is a row
                    row |= {"note": str(failure).splitlines()[0][:200], "pass": False}
                rows.append({"pass": True, **row})
                if options.json:  # what stands so far survives an interruption
                    options.json.write_text(json.dumps(rows, indent=1) + "\n")
                gc.collect()
                if not options.keep:
                    for file in folder.glob(f"{case.name}.*"):
                        file.unlink()
    failed = [row for row in rows if not row["pass"]]
    worst = sorted((row for row in rows if "ratio" in row), key=lambda row: -row["ratio"])[:12]
    for title, chosen in (("failed", failed), ("furthest from fp64, in units of torch's error", worst)):
        if chosen:
            print(title)
            table(chosen, ["network", "error", "torch_error", "ratio", "same_bits", "note"], sys.stdout)
    print(f"{time.monotonic() - started:.0f} s")
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
