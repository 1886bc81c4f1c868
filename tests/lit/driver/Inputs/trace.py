"""Checks the trace events of the digits network.

usage: trace.py FILE.json"""

import json
import sys

document = json.load(open(sys.argv[1]))
assert document["otherData"]["target"] == "cpu:generic", document["otherData"]
events = document["traceEvents"]
names = {e["name"]: e["args"]["name"] for e in events if e["ph"] == "M"}
assert names["thread_name"] == "cpu:generic" and names["process_name"].endswith("digits.onnx"), names
steps = [e for e in events if e["ph"] == "X"]
assert [e["args"]["step"] for e in steps] == list(range(len(steps))) and len(steps) >= 8, steps
at = 0
for step in steps:
    assert step["dur"] > 0 and abs(step["ts"] - at) < 1e-6 * (1 + at), step
    at = step["ts"] + step["dur"]
assert steps[0]["args"]["nodes"][0] == "stem/conv" and steps[-1]["name"] == "softmax", steps
arena = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
assert len(arena) == len(steps) and max(arena) == 8192, arena
