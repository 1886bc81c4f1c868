#!/usr/bin/env python3
"""Computes the liveness bound of a scheduled .tn file, apart from the compiler.

    tests/tools/arena_bound.py scheduled.tn

Reads the text alone. For the order of the file's steps it merges views and in-place results into
buffers, and prints the largest sum of live bytes (each buffer rounded up to 64): no arena for that
order can be smaller. Inputs, outputs and constants live elsewhere and do not count; scratch is
printed apart. `tenon compile --report=memory` must state an arena at most 1 % above it.
"""

import json
import re
import sys

WIDTH = {"i1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4,
         "f32": 4, "i64": 8, "u64": 8, "f64": 8}
VIEWS = ("reshape", "transpose", "slice", "concat")


def bytes_of(type_text, symbols):
    """Bytes of the allocation of `tensor<…>` at the upper bounds."""
    inner = type_text[len("tensor<"):-1]
    shape_text, _, layout = inner.partition(", ")
    extents = []
    while True:
        m = re.match(r"(\d+|\{[^}]*\})x", shape_text)
        if not m:
            break
        extents.append(evaluate(m.group(1).strip("{}"), symbols))
        shape_text = shape_text[m.end():]
    count = 1
    if layout.startswith("["):
        for axis in layout[1:layout.index("]")].split(","):
            m = re.match(r"\s*(\d+)(?:([/%])(\d+))?(?::(\d+|\{[^}]*\}))?", axis)
            extent = evaluate(m.group(4).strip("{}"), symbols) if m.group(4) else extents[int(m.group(1))]
            if m.group(2) == "%":
                extent = int(m.group(3))
            elif m.group(2) == "/":
                extent = -(-extent // int(m.group(3)))
            count *= extent
    else:
        for e in extents:
            count *= e
    return count * WIDTH[shape_text]


def evaluate(text, symbols):
    text = re.sub(r"[A-Za-z_][\w.]*", lambda m: str(symbols[m.group()]) if m.group() in symbols else m.group(), text)
    calls = {"floordiv": lambda a, b: a // b, "ceildiv": lambda a, b: -(-a // b), "mod": lambda a, b: a % b,
             "min": min, "max": max}
    return int(eval(text, {"__builtins__": {}}, calls))  # noqa: S307 - our own printer's text


class Op:
    """One operation of the graph's top level."""

    def __init__(self, results, name, operands, types, body, scratch):
        self.results, self.name, self.operands = results, name, operands
        self.types, self.body, self.scratch = types, body, scratch


def split_types(text):
    found, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "<[{(" and 1 or 0
        depth -= c in ">]})" and 1 or 0
        if c == "," and depth == 0:
            found.append(text[start:i].strip())
            start = i + 1
    found.append(text[start:].strip())
    return found


def read(path):
    lines = open(path, encoding="utf-8").read().split("\n")
    symbols = {}
    graphs = []
    i = 0
    while i < len(lines):
        line = lines[i]
        m = re.match(r"  symbol (\S+) = \d+\.\.(\d+)$", line)
        if m:
            symbols[m.group(1)] = int(m.group(2))
        if line.startswith("  graph "):
            ops, inputs = [], re.findall(r'%(\w+) "(?:[^"\\]|\\.)*": ', line)
            i += 1
            while lines[i] != "  }":
                head = lines[i]
                body = []
                # Nested lines are indented further; the closing brace is back at four spaces.
                if head.endswith("{"):
                    i += 1
                    while not lines[i].startswith("    }"):
                        body.append(lines[i])
                        i += 1
                    tail = lines[i]
                    while tail.endswith("{"):
                        i += 1
                        while not lines[i].startswith("    }"):
                            body.append(lines[i])
                            i += 1
                        tail = lines[i]
                else:
                    tail = head
                m = re.match(r"    (?:((?:%\w+(?:, )?)+) = )?(\w+)(.*)$", head)
                results = re.findall(r"%(\w+)", m.group(1) or "")
                rest = m.group(3)
                cut = re.search(r" \{| \(", rest)
                operand_text = rest[:cut.start()] if cut else rest.split(" : ")[0]
                operands = re.findall(r"%(\w+)", operand_text)
                type_text = re.sub(r" loc\(.*\)$", "", tail)
                types = split_types(type_text.rsplit(" : ", 1)[1]) if results else []
                scratch = re.search(r"\bscratch = (\d+)", head)
                arguments = re.findall(r"%(\w+): ", head[head.rfind(" ("):]) if m.group(2) == "group" else []
                op = Op(results, m.group(2), operands, types, body, int(scratch.group(1)) if scratch else 0)
                op.arguments = arguments
                ops.append(op)
                i += 1
            graphs.append((ops, inputs))
        i += 1
    return symbols, graphs


def pointwise_arguments(op):
    """Names of the group's arguments that only maps read, each at the point it writes."""
    reads = {}
    for line in op.body:
        m = re.match(r"\s+(?:(?:%\w+(?:, )?)+ = )?(\w+)(.*)$", line)
        if not m:
            continue
        kind = m.group(1)
        cut = re.search(r" \{| \(", m.group(2))
        text = m.group(2)[:cut.start()] if cut else m.group(2).split(" : ")[0]
        for name, index in re.findall(r"%(\w+)(\[[^\]]*\])?", text):
            if name in op.arguments:
                reads.setdefault(name, []).append((kind, index))
    # The chain from the read to the yield must be maps without movement.
    moved = any(re.match(r"\s+%\w+ = (transpose|slice|pad|reshape)\b", l) for l in op.body)
    if moved:
        return set()
    return {a for a in op.arguments if reads.get(a) and all(k == "map" and not x for k, x in reads[a])}


def bound(ops, inputs, symbols):
    parent, size, fixed = {}, {}, set(inputs)

    def find(v):
        while parent[v] != v:
            v = parent[v]
        return v

    for v in inputs:
        parent[v], size[v] = v, 0
    last = {}
    steps = [o for o in ops if o.name in ("group", "if", "loop")]
    number = {id(o): n for n, o in enumerate(steps)}
    end = len(steps)
    uses = {}
    for o in ops:
        for v in o.operands:
            uses.setdefault(v, []).append(o)

    def last_read(v):
        n = -1
        for o in uses.get(v, []):
            n = max(n, end if o.name == "return" else last_read(o.results[0]) if o.name in VIEWS else number[id(o)])
        return n

    members = {}
    for o in ops:
        for v, t in zip(o.results, o.types):
            parent[v], size[v] = v, bytes_of(t, symbols)
            members[v] = [v]
        if o.name == "constant":
            fixed.update(o.results)

    def merge(a, b):
        a, b = find(a), find(b)
        if a == b:
            return
        if size[b] > size[a]:
            a, b = b, a
        parent[b] = a
        if b in fixed:
            fixed.add(a)
        members.setdefault(a, [a]).extend(members.get(b, [b]))

    for o in ops:
        if o.name in VIEWS:
            for v in o.operands:
                merge(o.results[0], v)
    for o in ops:
        if o.name != "group":
            continue
        free = pointwise_arguments(o)
        taken = set()
        for y, t in zip(o.results, o.types):
            for v, a in zip(o.operands, o.arguments):
                root = find(v)
                others = [x for x, b in zip(o.operands, o.arguments) if b not in free and find(x) == root]
                if (a in free and root not in fixed and root not in taken and not others and find(y) != root
                        and size[find(y)] == size[root]
                        and all(last_read(x) <= number[id(o)] for x in members.get(root, [root]))):
                    merge(v, y)
                    taken.add(find(y))
                    break
    returned = {find(v) for o in ops if o.name == "return" for v in o.operands}
    first, last = {}, {}
    for o in steps:
        n = number[id(o)]
        for v in o.operands + o.results:
            r = find(v)
            first[r] = min(first.get(r, n), n)
            last[r] = max(last.get(r, n), n)
    live = [0] * max(len(steps), 1)
    for r in first:
        if r in fixed or any(find(f) == r for f in fixed) or r in returned:
            continue
        for n in range(first[r], last[r] + 1):
            live[n] += -(-size[r] // 64) * 64
    return max(live), max([o.scratch for o in ops] + [0])


def main():
    symbols, graphs = read(sys.argv[1])
    rows = []
    for ops, inputs in graphs:
        b, scratch = bound(ops, inputs, symbols)
        rows.append({"bound_bytes": b, "scratch_bytes": scratch})
        if "--json" not in sys.argv:
            print(f"bound {b} bytes, largest scratch {scratch} bytes")
    if "--json" in sys.argv:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
