"""Checks the JSON of `inspect --tensor-cores` for the digits in fp32: no contraction is on them."""

import json
import sys

with open(sys.argv[1]) as file:
    (variant,) = json.load(file)["variants"]
contractions = [layer for layer in variant["layers"] if layer["contraction"]]
assert variant["variant"] == "sm_87"
assert variant["contractions"] == len(contractions) == 6, variant
assert variant["on_tensor_cores"] == 0 and variant["flops_share"] == 0
for layer in contractions:
    assert layer["instructions"] == [], layer
    assert layer["functions"], layer  # the kernel was found
    assert layer["refusals"], layer
    assert layer["change"].startswith("--precision=fp16 or bf16"), layer
for share in "flops_share", "time_share":
    assert abs(sum(layer[share] for layer in variant["layers"]) - 1) < 1e-9
