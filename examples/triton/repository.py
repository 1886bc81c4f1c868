#!/usr/bin/env python3
"""Writes a model repository for Triton Inference Server from what `tenon.Module.save` wrote.

    repository.py MODULE REPOSITORY --name=NAME [--instances=1] [--gpus=0,1] [--delay-us=2000]

REPOSITORY/NAME gets config.pbtxt, with the model's inputs and outputs, and version 1: the module and model.py. A
model whose first extents are all one open dimension is batched up to its upper bound.
"""

import argparse
import shutil
from pathlib import Path

import tenon

TYPES = {"i1": "BOOL", "i8": "INT8", "i16": "INT16", "i32": "INT32", "i64": "INT64", "u8": "UINT8", "u16": "UINT16",
         "u32": "UINT32", "u64": "UINT64", "f16": "FP16", "f32": "FP32", "f64": "FP64", "str": "STRING"}  # fmt: skip


def port(kind, p, batched):
    if p.type not in TYPES:
        raise SystemExit(f"{kind} '{p.name}' is of {p.type}, which Triton has not; compile with --io {p.name}=f32")
    shape = [extent if isinstance(extent, int) else -1 for extent in p.shape[1 if batched else 0 :]]
    # A tensor of no dimension is one of one element there.
    dims = shape if shape or batched else [1]
    reshape = "" if dims == shape or batched else "\n    reshape { shape: [ ] }"
    name = p.name.replace("\\", "\\\\").replace('"', '\\"')
    return f"""{kind} [
  {{
    name: "{name}"
    data_type: TYPE_{TYPES[p.type]}
    dims: {dims}{reshape}
  }}
]
"""


def config(module, name, instances, gpus, delay_us):
    """The text of config.pbtxt."""
    ports = (*module.inputs, *module.outputs)
    first = {p.shape[0] if p.shape else None for p in ports}
    batch = next((dim for dim in module.run_time_dims if first == {dim.name}), None)
    text = f'name: "{name}"\nbackend: "python"\nmax_batch_size: {batch.high if batch else 0}\n'
    for kind, list_ in (("input", module.inputs), ("output", module.outputs)):
        text += "".join(port(kind, p, batch) for p in list_)
    where = f"\n    kind: KIND_GPU\n    gpus: {gpus}" if gpus else "\n    kind: KIND_CPU"
    text += f"instance_group [\n  {{\n    count: {instances}{where}\n  }}\n]\n"
    if batch:
        text += f"dynamic_batching {{\n  max_queue_delay_microseconds: {delay_us}\n}}\n"
    return text


def write(folder, repository, name, instances=1, gpus=(), delay_us=2000):
    """The repository's folder of the model; one that is there is replaced."""
    module = tenon.load(folder)
    target = Path(repository) / name
    shutil.rmtree(target, ignore_errors=True)
    (target / "1").mkdir(parents=True)
    shutil.copytree(folder, target / "1/module")
    shutil.copy(Path(__file__).with_name("model.py"), target / "1/model.py")
    (target / "config.pbtxt").write_text(config(module, name, instances, list(gpus), delay_us))
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module")
    parser.add_argument("repository")
    parser.add_argument("--name", required=True)
    parser.add_argument("--instances", type=int, default=1, help="of the model, each a process with a copy of its own")
    parser.add_argument("--gpus", type=lambda s: [int(n) for n in s.split(",")], default=[])
    parser.add_argument("--delay-us", type=int, default=2000, help="how long the first request of a batch waits for others")
    a = parser.parse_args()
    print(write(a.module, a.repository, a.name, a.instances, a.gpus, a.delay_us))


if __name__ == "__main__":
    main()
