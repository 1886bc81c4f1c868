"""Shrinks an ONNX model that makes something fail: fewer outputs, then shorter prefixes, then values
that are computed become inputs."""

import copy

import numpy as np
import onnx
import onnxruntime
from fuzz_pieces import reads
from onnx import helper


def evaluate(model, data, names):
    """{name: array} of values of a model, inner ones included, by onnxruntime without optimisation."""
    wider = copy.deepcopy(model)
    have = {info.name for info in wider.graph.output}
    inferred = onnx.shape_inference.infer_shapes(wider, strict_mode=True)
    inner = {info.name: info for info in inferred.graph.value_info}
    wider.graph.output.extend(inner[name] for name in names if name not in have and name in inner)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # A pool of threads a session would take longer to make than such graphs to run.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(wider.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])  # fmt: skip
    results = session.run(None, data)
    return dict(zip((info.name for info in wider.graph.output), results))


def info_of(name, array):
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)  # fmt: skip


def rebuilt(model, data, values, outputs, cuts):
    """The part of a model that computes `outputs`, where the values `cuts` are inputs."""
    needed, nodes = set(outputs), []
    for node in reversed(model.graph.node):
        made = set(node.output) & needed
        if made and not made <= cuts:
            nodes.append(node)
            needed |= set(reads(node))
    nodes.reverse()
    graph = model.graph
    inputs = [info for info in graph.input if info.name in needed]
    inputs += [info_of(name, values[name]) for name in sorted(cuts & needed)
               if name not in {info.name for info in graph.input}]  # fmt: skip
    small = helper.make_graph(
        nodes, "fuzz", inputs, [info_of(name, values[name]) for name in outputs],
        [w for w in graph.initializer if w.name in needed])  # fmt: skip
    made = helper.make_model(small, opset_imports=model.opset_import)
    made.ir_version = model.ir_version
    return made, {info.name: np.asarray(data.get(info.name, values.get(info.name))) for info in inputs}


def shrink(model, data, fails, attempts=80):
    """(model, data), as small as `attempts` tries of `fails(model, data)` make it."""
    names = [name for node in model.graph.node for name in node.output if name]
    values = evaluate(model, data, names)
    best = [info.name for info in model.graph.output], set()
    left = [attempts]

    def worse(outputs, cuts):
        if left[0] <= 0:
            return False
        left[0] -= 1
        candidate = rebuilt(model, data, values, outputs, cuts)
        return bool(candidate[0].graph.node) and fails(*candidate)

    for output in best[0] if len(best[0]) > 1 else []:
        if worse([output], set()):
            best = [output], set()
            break
    for name in names:
        if name in values and [name] != best[0] and worse([name], set()):
            best = [name], set()
            break
    for name in reversed(names):
        if name in values and name not in best[0] and worse(best[0], best[1] | {name}):
            best = best[0], best[1] | {name}
    return rebuilt(model, data, values, *best)
