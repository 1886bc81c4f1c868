"""Defines `Nodes`, which benchmarks write ONNX graphs with."""

import numpy as np
from onnx import helper, numpy_helper


class Nodes:
    """Nodes and constants of a graph in the order in which they are made, and their random numbers."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.tensors = [], []

    def constant(self, array):
        name = f"constant_{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        at = len(self.nodes)
        names = [f"{kind.lower()}_{at}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"{kind}_{at}", **attributes))
        return names[0] if outputs == 1 else names
