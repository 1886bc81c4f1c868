"""Peers of bench/gpu.py that read the exported model themselves, where their packages are installed:
`ort` (ONNX Runtime's CUDA provider) and `tensorrt`.

Both get their fastest known settings: ONNX Runtime an exhaustive search for convolutions with all the
workspace it asks for, channels last inside, and its own CUDA graph; TensorRT its highest builder level,
and torch's graph around the enqueue. Types are the model's own (TensorRT: strongly typed). Both read and
write the caller's device memory on torch's current stream, which may not be the default one: that cannot
be captured. What is missing or refused is an exception, which becomes the note of the peer's row."""

import time

import torch


class OnnxRuntime:
    name = "ort"
    compile_s = 0.0

    def __init__(self, model, inputs, like, tf32):
        import onnxruntime
        from onnx import TensorProto

        onnxruntime.set_default_logger_severity(3)
        self.output = torch.full(like.shape, float("nan"), dtype=like.dtype, device=like.device)
        device = inputs.device
        provider = "CUDAExecutionProvider"
        if device.type == "cuda" and provider not in onnxruntime.get_available_providers():
            raise RuntimeError("this onnxruntime has no CUDA provider: install onnxruntime-gpu")
        choices = {
            "device_id": str(device.index or 0),
            "cudnn_conv_algo_search": "EXHAUSTIVE",
            "cudnn_conv_use_max_workspace": "1",
            "prefer_nhwc": "1",
            "use_tf32": str(int(tf32)),
            "enable_cuda_graph": "1",
        }
        if device.type == "cuda":
            choices["user_compute_stream"] = str(torch.cuda.current_stream().cuda_stream)
            providers = [(provider, choices)]
        else:
            providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(model), providers=providers)
        if device.type == "cuda" and self.session.get_providers()[0] != provider:
            raise RuntimeError("onnxruntime's CUDA provider did not load")
        self.options = onnxruntime.RunOptions()
        # Whoever measures waits for the stream.
        self.options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        types = {torch.float32: TensorProto.FLOAT, torch.float16: TensorProto.FLOAT16,
                 torch.bfloat16: TensorProto.BFLOAT16}  # fmt: skip
        self.binding = self.session.io_binding()
        for bind, port, tensor in ((self.binding.bind_input, self.session.get_inputs()[0], inputs),
                                   (self.binding.bind_output, self.session.get_outputs()[0], self.output)):  # fmt: skip
            bind(port.name, device.type, device.index or 0, types[tensor.dtype], tuple(tensor.shape),
                 tensor.data_ptr())  # fmt: skip
        self.inputs = inputs
        for _ in range(2):  # allocates and searches; captures
            self.run()

    def run(self):
        self.session.run_with_iobinding(self.binding, self.options)

    def close(self):
        self.binding = self.session = self.output = self.inputs = None


class TensorRt:
    name = "tensorrt"

    def __init__(self, model, inputs, like, tf32):
        import tensorrt

        self.output = torch.full(like.shape, float("nan"), dtype=like.dtype, device=like.device)
        self.inputs = inputs
        start = time.monotonic()
        logger = tensorrt.Logger(tensorrt.Logger.ERROR)
        builder = tensorrt.Builder(logger)
        network = builder.create_network(1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = tensorrt.OnnxParser(network, logger)
        if not parser.parse_from_file(str(model)):
            raise RuntimeError(f"TensorRT: {parser.get_error(0).desc()}")
        config = builder.create_builder_config()
        config.builder_optimization_level = 5
        if not tf32:
            config.clear_flag(tensorrt.BuilderFlag.TF32)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise RuntimeError("TensorRT built no engine")
        self.compile_s = time.monotonic() - start
        self.runtime = tensorrt.Runtime(logger)
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()
        for index in range(self.engine.num_io_tensors):
            port = self.engine.get_tensor_name(index)
            is_input = self.engine.get_tensor_mode(port) == tensorrt.TensorIOMode.INPUT
            self.context.set_tensor_address(port, (inputs if is_input else self.output).data_ptr())
        self.enqueue()  # the first call allocates, which a graph cannot hold
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.enqueue()

    def enqueue(self):
        if not self.context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise RuntimeError("TensorRT did not enqueue")

    def run(self):
        self.graph.replay()

    def close(self):
        self.graph = self.context = self.engine = self.runtime = self.output = self.inputs = None


ENGINES = {engine.name: engine for engine in (OnnxRuntime, TensorRt)}
