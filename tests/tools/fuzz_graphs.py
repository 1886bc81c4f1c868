"""Random valid ONNX graphs: types, shapes with zero extents and rank 0, broadcasting corners, chains
that fuse, movement around contractions and reductions."""

import fuzz_composite as composite
import fuzz_counted as counted
import fuzz_movement as movement
import fuzz_pointwise as pointwise
import fuzz_structured as structured
import numpy as np
import onnx
from fuzz_pieces import BOOL, INTEGER, NotHere, Pieces, Value, reads
from onnx import helper

OPSET = 21
# As often as they stand here.
MAKERS = (
    pointwise.unary, pointwise.unary, pointwise.unary, pointwise.unary, pointwise.positive,
    pointwise.stepped, pointwise.clip, pointwise.binary, pointwise.binary, pointwise.binary,
    pointwise.binary, pointwise.divide, pointwise.compare, pointwise.logic, pointwise.where,
    pointwise.cast, movement.reshape, movement.reshape, movement.transpose, movement.transpose,
    movement.unsqueeze, movement.squeeze, movement.slice_, movement.slice_, movement.concat,
    movement.concat, movement.split, movement.gather, movement.gather_elements, movement.scatter,
    movement.pad, movement.tile, movement.expand, structured.reduce_, structured.reduce_, structured.arg,
    structured.top, structured.softmax, structured.cumsum, structured.matmul, structured.matmul,
    structured.gemm, structured.conv, structured.conv, structured.pool, structured.normalization,
    structured.resize, structured.triangle, pointwise.integer_arithmetic, pointwise.quantized,
    counted.places, counted.kept, counted.distinct, counted.picked, counted.branched, counted.cut,
    structured.einsum, structured.conv_transpose, structured.blocks, composite.attention,
    composite.attention, composite.quantized_layer, composite.quantized_layer, composite.branch,
    composite.loop, composite.scan, composite.recurrence, composite.text,
)  # fmt: skip


class Generator(Pieces):
    """Makes one graph from a seed."""

    def graph(self):
        """The model, after as many nodes as chance wants."""
        for _ in range(1 + self.below(2)):
            dtype = self.one(("float32",) * 6 + ("float64", *INTEGER, BOOL))
            shape = self.shape()
            array = self.values_of(dtype, shape)
            name = self.fresh()
            self.inputs.append(helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))  # fmt: skip
            self.data[name] = array
            self.values.append(Value(name, dtype, shape, 4, True))
        wanted = 1 + self.below(14)
        for _ in range(8 * wanted):
            if len(self.nodes) >= wanted:
                break
            before = len(self.nodes), len(self.values), len(self.weights), len(self.inputs)
            try:
                self.one(MAKERS)(self)
            except NotHere:
                for index in range(before[3], len(self.inputs)):
                    del self.data[self.inputs[index].name]
                for items, length in zip((self.nodes, self.values, self.weights, self.inputs), before):
                    del items[length:]
        if not self.nodes:
            v = self.values[0]
            self.add("Identity", [v], v.dtype, v.shape, v.bound, True)
        return self.finish()

    def finish(self):
        used = {name for node in self.nodes for name in reads(node)}
        made = {name: v for v in self.values for name in [v.name]}
        outputs = [made[name] for node in self.nodes for name in node.output if name not in used]
        for v in self.values:  # one result that is read and given away
            if v.name in used and v not in outputs and self.chance(0.05) and v.name not in self.data:
                outputs.append(v)
        inputs = [info for info in self.inputs if info.name in used]
        weights = [w for w in self.weights if w.name in used]
        infos = [helper.make_tensor_value_info(
            v.name, helper.np_dtype_to_tensor_dtype(np.dtype(v.dtype)), v.shape) for v in outputs]  # fmt: skip
        graph = helper.make_graph(self.nodes, "fuzz", inputs, infos, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 10
        onnx.checker.check_model(model, full_check=True)
        return model, {info.name: self.data[info.name] for info in inputs}


def random_model(seed):
    """(model, {input: array})."""
    return Generator(seed).graph()
