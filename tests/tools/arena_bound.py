#!/usr/bin/env python3
"""Computes the liveness bound of a scheduled .tn file, apart from the compiler.

    tests/tools/arena_bound.py [--json] scheduled.tn

Reads the text alone. For the order of the file's steps it merges views and in-place results into
buffers, and prints the largest sum of bytes that may be live together (each buffer rounded up to
64): no arena for that order can be smaller. Steps on several branches leave more live together than
one sequence does. Inputs, outputs, states that stay where they are and constants live elsewhere and
do not count; the sum is printed without and with the scratch of kernels. The arena that
`tenon compile --report=memory` states must be at most 1 % above the latter.

In place: a group's result takes over an operand that lies as it does and that nobody else reads then
or later, if the group reads it only at the very point that it writes; arguments of regions are not
taken over. What control flow takes, gives or passes into its regions lives through all of it.
"""

import json
import re
import sys

WIDTH = {"i1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4,
         "f32": 4, "i64": 8, "u64": 8, "f64": 8}
VIEWS = ("reshape", "transpose", "slice", "concat")
ALIGNMENT = 64


class Type:
    """`tensor<…>` at the upper bounds of its extents."""

    def __init__(self, text, symbols):
        shape = text[len("tensor<"):-1]
        self.extents = []
        while m := re.match(r"(\d+|\{[^}]*\})x", shape):
            self.extents.append(evaluate(m.group(1).strip("{}"), symbols))
            shape = shape[m.end():]
        self.element, _, layout = shape.partition(", ")
        rank = len(self.extents)
        order = range(rank)
        if layout.split(",")[0] in ("nwc", "nhwc", "ndhwc"):
            order = [0, *range(2, rank), 1]
        # From the outside in: dimension, how it is blocked, allocated extent, origin.
        self.axes = [(d, None, self.extents[d], 0) for d in order]
        if layout.startswith("["):
            self.axes = [self.axis(text, symbols) for text in layout[1:layout.index("]")].split(",")]
        count = 1
        for _, _, extent, _ in self.axes:
            count *= extent
        self.bytes = count * WIDTH[self.element]

    def axis(self, text, symbols):
        m = re.match(r"\s*(\d+)(?:([/%])(\d+))?(?::(\d+|\{[^}]*\}))?(?:@(\d+))?", text)
        extent = self.extents[int(m.group(1))]
        if m.group(4):
            extent = evaluate(m.group(4).strip("{}"), symbols)
        if m.group(2) == "%":
            extent = int(m.group(3))
        elif m.group(2) == "/":
            extent = -(-extent // int(m.group(3)))
        return int(m.group(1)), m.group(2), extent, int(m.group(5) or 0)

    def places(self):
        """Where the elements lie: types of one element type with equal places take over each
        other's memory, whatever extents of 1 they have."""
        offset, step, strides = 0, 1, {}
        for d, block, extent, origin in reversed(self.axes):
            if block:
                return self.axes
            strides[d] = step
            offset += origin * step
            step *= extent
        return offset, [(self.extents[d], strides[d]) for d in sorted(strides) if self.extents[d] != 1]


class Span:
    """All values between two, as what is computed of them one by one spreads."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    @staticmethod
    def corners(function, a, b):
        a, b = (v if isinstance(v, Span) else Span(v, v) for v in (a, b))
        values = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return Span(min(values), max(values))

    def __add__(self, other):
        return Span.corners(lambda a, b: a + b, self, other)

    def __mul__(self, other):
        return Span.corners(lambda a, b: a * b, self, other)

    __radd__, __rmul__ = __add__, __mul__

    @staticmethod
    def remainder(a, b):
        most = (b.high if isinstance(b, Span) else b) - 1
        return Span(0, min(most, a.high) if a.low >= 0 else most)


def evaluate(text, symbols):
    """The upper bound of an extent."""
    names = [name for name in dict.fromkeys(re.findall(r"[A-Za-z_][\w.]*", text)) if name in symbols]
    for number, name in enumerate(names):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", f"s[{number}]", text)
    calls = {"floordiv": lambda a, b: Span.corners(lambda x, y: x // y if y else 0, a, b),
             "ceildiv": lambda a, b: Span.corners(lambda x, y: -(-x // y) if y else 0, a, b),
             "mod": Span.remainder,
             "min": lambda a, b: Span.corners(min, a, b), "max": lambda a, b: Span.corners(max, a, b),
             "s": [Span(*symbols[name]) for name in names]}  # fmt: skip
    found = eval(text, {"__builtins__": {}}, calls)  # noqa: S307 - our own printer's text
    return found.high if isinstance(found, Span) else found


class Region:
    def __init__(self, arguments):
        self.arguments = arguments  # names
        self.types = []
        self.ops = []


class Op:
    """One operation: names of results and operands, an index after an operand as its text."""

    def __init__(self, results, name, operands, indices, attributes):
        self.results, self.name, self.operands, self.indices = results, name, operands, indices
        self.attributes = attributes  # text
        self.regions, self.types = [], []

    def number(self, attribute):
        m = re.search(rf"\b{attribute} = (\d+)", self.attributes)
        return int(m.group(1)) if m else 0


class Graph:
    def __init__(self, body, states):
        self.body, self.states = body, states  # states: input -> output


def split_types(text):
    found, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "<[{("
        depth -= c in ">]})"
        if c == "," and depth == 0:
            found.append(text[start:i].strip())
            start = i + 1
    found.append(text[start:].strip())
    return found


def read(path):
    """Symbols with their upper bounds, and the graphs of a module."""
    with open(path, encoding="utf-8") as file:
        lines = [re.sub(r'"(?:[^"\\]|\\.)*"', '""', line) for line in file.read().split("\n")]
    symbols, graphs, i = {}, [], 0
    while i < len(lines):
        m = re.match(r"  symbol (\S+) = (\d+)\.\.(\d+)$", lines[i])
        if m:
            symbols[m.group(1)] = int(m.group(2)), int(m.group(3))
        if lines[i].startswith("  graph "):
            head, body = lines[i], Region([])
            arguments = re.match(r'.*?\((.*)\) -> \(', head).group(1)
            for argument in split_types(arguments) if arguments else []:
                name, _, type_text = argument.partition(' "": ')
                body.arguments.append(name.lstrip("%"))
                body.types.append(type_text)
            states = {int(a): int(b) for a, b in re.findall(r"state\((\d+) = (\d+)", head)}
            i = read_region(lines, i + 1, body)
            graphs.append(Graph(body, states))
        i += 1
    return symbols, graphs


def open_region(op, line):
    arguments = line[line.rfind(" (%" if " (%" in line else " ("):-1].strip()[1:-1]
    region = Region([])
    for argument in split_types(arguments) if arguments else []:
        name, _, type_text = argument.partition(": ")
        region.arguments.append(name.lstrip("%"))
        region.types.append(type_text)
    op.regions.append(region)
    return region


def read_region(lines, i, region):
    """Reads operations up to the closing brace and returns its line."""
    while not lines[i].lstrip().startswith("}"):
        m = re.match(r" +(?:((?:%\w+(?:, )?)+) = )?(\w+)(.*)$", lines[i])
        rest = m.group(3)
        cut = re.search(r" \{| \(| : | loc\(", rest)
        operand_text = rest[:cut.start()] if cut else rest
        operands = re.findall(r"%(\w+)(\[[^\]]*\])?", operand_text)
        op = Op(re.findall(r"%(\w+)", m.group(1) or ""), m.group(2), [name for name, _ in operands],
                [index for _, index in operands], rest[len(operand_text):])
        tail = lines[i]
        while tail.endswith("{"):
            i = read_region(lines, i + 1, open_region(op, tail))
            tail = lines[i]
        if op.results:
            op.types = split_types(re.sub(r" loc\(.*\)$", "", tail).rsplit(" : ", 1)[1])
        region.ops.append(op)
        i += 1
    return i


def pointwise_arguments(group):
    """Indices of the arguments that lead through maps alone, each at its own point, to what the group
    yields: a map that a contraction, a window or a reduction reads is computed at other points."""
    region = group.regions[0]
    types = dict(zip(region.arguments, region.types))
    uses = {}
    for op in region.ops:
        types.update(zip(op.results, op.types))
        for name, index in zip(op.operands, op.indices):
            uses.setdefault(name, []).append((op, index))

    def in_order(op, index):
        """Whether an index names each dimension of the result that is more than one element."""
        extents = re.findall(r"(\d+|\{[^}]*\})x", types[op.results[0]])
        return index.strip("[]").split(", ") == [str(d) for d, extent in enumerate(extents) if extent != "1"]

    def at_its_point(name):
        scalar = not re.search(r"[\dx}]x", types[name])
        return all(op.name == "yield" or op.name == "map"
                   and (not index or scalar and index == "[]" or in_order(op, index))
                   and all(map(at_its_point, op.results)) for op, index in uses.get(name, []))

    return {i for i, name in enumerate(region.arguments) if uses.get(name) and at_its_point(name)}


class Order:
    """Which steps have finished when another starts: those before it on its branch, those whose
    results it reads, and whatever these waited for."""

    def __init__(self):
        self.behind = []  # by step: bits of the steps that have finished
        self.last = {}  # by branch

    def add(self, branch, makers):
        bits = 0
        for step in [*makers, *([self.last[branch]] if branch in self.last else [])]:
            bits |= self.behind[step] | 1 << step
        self.last[branch] = len(self.behind)
        self.behind.append(bits)

    def before(self, a, b):
        return self.behind[b] >> a & 1 == 1

    def all_before(self, first, second):
        return all(self.before(a, b) for a in first for b in second)


def heaviest_antichain(weights, less):
    """The largest weight of items no two of which stand in the order `less`: by Dilworth's theorem all
    weight but what a flow from each item to those behind it can pair up."""
    count = len(weights)
    after = [[b for b in range(count) if less(a, b)] for a in range(count)]
    left, right = list(weights), list(weights)  # not yet paired
    flow = [{} for _ in range(count)]  # by the second item: the first ones and how much
    paired = 0
    while True:
        # Breadth first from every item that has weight left; back along what is paired already.
        came, queue, end = {}, [a for a in range(count) if left[a]], None
        seen = set(queue)
        for a in queue:
            for b in after[a]:
                if b in came:
                    continue
                came[b] = a
                if right[b]:
                    end = b
                    break
                for c, amount in flow[b].items():
                    if amount and c not in seen:
                        seen.add(c)
                        came[c, "back"] = b
                        queue.append(c)
            if end is not None:
                break
        if end is None:
            return sum(weights) - paired
        path, b = [], end
        while True:
            a = came[b]
            path.append((a, b))
            if (a, "back") not in came:
                break
            b = came[a, "back"]
        amount = min(right[end], left[path[-1][0]])
        for a, b in path[:-1]:
            amount = min(amount, flow[came[a, "back"]][a])
        for a, b in path:
            flow[b][a] = flow[b].get(a, 0) + amount
            if (a, "back") in came:
                flow[came[a, "back"]][a] -= amount
        left[path[-1][0]] -= amount
        right[end] -= amount
        paired += amount


class Bound:
    def __init__(self, graph, symbols):
        self.symbols = symbols
        self.parent, self.size, self.type, self.region = {}, {}, {}, {}
        self.members, self.uses, self.makers = {}, {}, {}
        self.fixed = set()
        self.touched, self.scratch = {}, {}  # steps by value, bytes by step
        self.order = Order()
        self.collect(graph.body)
        self.fixed.update(graph.body.arguments)
        end = len(self.order.behind)
        self.order.behind.append((1 << end) - 1)
        returned = graph.body.ops[-1].operands
        for i in graph.states.values():
            self.touch(returned[i], end)  # carried over when all is done
        self.merge_views(graph.body)
        self.merge_in_place(graph.body)
        outputs = {name for i, name in enumerate(returned) if i not in graph.states.values()}
        away = {self.find(name) for name in self.fixed | outputs}
        items = []
        for root in sorted({self.find(name) for name in self.touched} - away):
            steps = set().union(*(self.touched.get(name, ()) for name in self.members[root]))
            items.append((self.size[root], sorted(steps)))
        self.bytes = self.together(items)
        self.with_scratch = self.together(items + [(n, [step]) for step, n in self.scratch.items() if n])

    def together(self, items):
        """The most bytes that may be live at once, of (bytes, steps that touch them)."""
        weights = [-(-size // ALIGNMENT) * ALIGNMENT for size, _ in items]
        return heaviest_antichain(
            weights, lambda a, b: self.order.all_before(items[a][1], items[b][1]))  # fmt: skip

    def define(self, name, type_text, region):
        self.parent[name], self.members[name] = name, [name]
        self.type[name] = Type(type_text, self.symbols)
        self.size[name] = self.type[name].bytes
        self.region[name] = region  # None for arguments

    def touch(self, name, step):
        self.touched.setdefault(name, set()).add(step)

    def steps_behind(self, name):
        """The steps that make a value, through views."""
        op = self.makers.get(name)
        if op is None:
            return set()
        if hasattr(op, "last"):
            return {op.last}
        return set().union(*map(self.steps_behind, op.operands))

    def collect(self, region):
        """Definitions, uses, and the steps, numbered in the order of the text."""
        for name, type_text in zip(region.arguments, region.types):
            self.define(name, type_text, None)
        for op in region.ops:
            for name in op.operands:
                self.uses.setdefault(name, []).append(op)
            for name, type_text in zip(op.results, op.types):
                self.define(name, type_text, region)
                self.makers[name] = op
            if op.name == "constant":
                self.fixed.update(op.results)
            if op.name not in ("group", "if", "loop"):
                continue
            op.first = len(self.order.behind)
            self.order.add(op.number("branch"), set().union(*map(self.steps_behind, op.operands)))
            self.scratch[op.first] = op.number("scratch")
            if op.name != "group":
                for inner in op.regions:
                    self.collect(inner)
            op.last = len(self.order.behind) - 1
            ends = [n for inner in op.regions for n in inner.ops[-1].operands]
            through = [n for inner in op.regions for n in inner.arguments]
            for name in op.operands + op.results + (through if op.name != "group" else []):
                self.touch(name, op.first)
                self.touch(name, op.last)
            for name in ends if op.name != "group" else []:
                self.touch(name, op.last)

    def find(self, name):
        while self.parent[name] != name:
            name = self.parent[name]
        return name

    def merge(self, a, b):
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        if self.size[b] > self.size[a]:
            a, b = b, a
        self.parent[b] = a
        self.members[a] += self.members.pop(b)

    def merge_views(self, region):
        for op in region.ops:
            if op.name in VIEWS:
                for name in op.operands:
                    self.merge(op.results[0], name)
            if op.name not in ("if", "loop"):
                continue
            for inner in op.regions:
                # What a loop carries has memory of its own; what regions only read is where it was.
                passed = op.operands[1:]
                own = 0
                if op.name == "loop":
                    passed, own = op.operands, 2 + op.number("carried")
                for name, outer in list(zip(inner.arguments, passed))[own:]:
                    self.merge(outer, name)
                self.merge_views(inner)

    def read_before(self, name, step):
        """Whether all who read a value, directly or through views, have finished when a step starts,
        but that step itself."""
        return all(op.name not in ("return", "yield") and (
            (op.first == step or self.order.before(op.last, step)) if hasattr(op, "last")
            else self.read_before(op.results[0], step)) for op in self.uses.get(name, []))  # fmt: skip

    def merge_in_place(self, region):
        for op in region.ops:
            if op.name in ("if", "loop"):
                for inner in op.regions:
                    self.merge_in_place(inner)
            if op.name != "group" or "apart = true" in op.attributes:
                continue
            free, taken = pointwise_arguments(op), set()
            away = {self.find(name) for name in self.fixed}
            for y in op.results:
                for i, x in enumerate(op.operands):
                    root = self.find(x)
                    if (i not in free or self.type[x].element != self.type[y].element
                            or self.type[x].places() != self.type[y].places() or root in away | taken
                            or root == self.find(y) or self.size[root] != self.size[self.find(y)]
                            or any(self.find(n) == root for j, n in enumerate(op.operands) if j != i)
                            or any(not self.read_before(n, op.first) or self.region[n] is not region
                                   for n in self.members[root])):  # fmt: skip
                        continue
                    self.merge(x, y)
                    taken.add(self.find(y))
                    break


def bound(graph, symbols):
    """The most bytes that may be live at once: without scratch, and with it."""
    found = Bound(graph, symbols)
    return found.bytes, found.with_scratch


def main():
    symbols, graphs = read(sys.argv[-1])
    rows = []
    for graph in graphs:
        values, whole = bound(graph, symbols)
        rows.append({"bound_bytes": values, "with_scratch_bytes": whole})
        if "--json" not in sys.argv:
            print(f"bound {values} bytes, {whole} with scratch")
    if "--json" in sys.argv:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
