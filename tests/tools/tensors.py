"""Tensors between files, ONNX Runtime and numpy: test data sets, sessions that show every value."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def read_tensor(path):
    tensor = TensorProto()
    tensor.ParseFromString(Path(path).read_bytes())
    return tensor.name, numpy_helper.to_array(tensor)


def fed_inputs(model):
    """The graph inputs that are no initialisers."""
    initialised = {tensor.name for tensor in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in initialised]


def read_data_set(folder, model):
    """(inputs, outputs) of a test data set, each by name, in the graph's order."""

    def read(kind, declared):
        values = {}
        for index, info in enumerate(declared):
            path = Path(folder) / f"{kind}_{index}.pb"
            if path.exists():
                values[info.name] = read_tensor(path)[1]
        return values

    return read("input", fed_inputs(model)), read("output", model.graph.output)


def plain_session(model):
    """ONNX Runtime on one thread with every optimisation off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def all_values_session(model, free=()):
    """A plain session whose outputs are all values of the main graph, and their names. The
    constants named in `free` become inputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    present = {output.name for output in graph.output}
    for node in graph.node:
        node.name = ""  # ONNX Runtime refuses a name that occurs twice
        for name in node.output:
            if name and name not in present and name not in free:
                graph.output.append(onnx.ValueInfoProto(name=name))
                present.add(name)
    if free:
        declared = {i.name for i in graph.input}
        freed = [(t.name, t.data_type, list(t.dims)) for t in graph.initializer if t.name in free]
        kept = [t for t in graph.initializer if t.name not in free]
        nodes = []
        for node in graph.node:
            if node.op_type == "Constant" and node.output[0] in free:
                tensor = node.attribute[0].t
                freed.append((node.output[0], tensor.data_type, list(tensor.dims)))
            else:
                nodes.append(node)
        for field, values in ((graph.initializer, kept), (graph.node, nodes)):
            copies = [type(v).FromString(v.SerializeToString()) for v in values]
            del field[:]
            field.extend(copies)
        for name, dtype, shape in freed:
            if name not in declared:
                graph.input.append(helper.make_tensor_value_info(name, dtype, shape))
    session = plain_session(copy)
    return session, [output.name for output in session.get_outputs()]
