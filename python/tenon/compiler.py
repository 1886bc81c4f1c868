"""`compile` and `load`."""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from . import _native, cache, options as _options, sharing, sources, toolchain
from .errors import CompileError, TenonError, ToolMissing
from .interface import Interface
from .module import Module
from .report import Report

_RECORD = "module.json"
_MOST_THREADS = 64  # of a context (runtime/cpu/pool.h)


def compile(model: Any, target: str = "cpu:native", *, example_inputs: Sequence[Any] | None = None,
            threads: int = 1, device: int = 0, shared: Iterable[Any] = (), fallback: str | None = None,
            **options: Any) -> Module:  # fmt: skip
    """Compiles a model, builds the generated file with the system's compiler and loads it.

    What was built before of the same content (model, options, versions of Tenon and of the compiler, for
    `native` this machine) comes from the cache in TENON_CACHE, XDG_CACHE_HOME/tenon or ~/.cache/tenon.

    Args:
        model: a path of an ONNX or .tn file, an ONNX model as bytes or `onnx.ModelProto`, Tenon's text, or a
            `torch.nn.Module` (with `example_inputs`).
        target: "cpu:native", "cpu:x86-64-v3", "cuda:native", "cuda:sm_80+sm_90a", … (`targets()` lists them),
            or "interpreter", which needs no compiler and is slow.
        example_inputs: of a `torch.nn.Module`, the tensors that it is exported with.
        threads: worker threads of each context on the processor.
        device: the number of the GPU that a cuda module runs on.
        shared: of a cuda module, arrays on that GPU (torch's, CuPy's, JAX's), such as a network's parameters. A weight
            that one of them has byte for byte as kernels want it is read there, and not copied: the arrays have to
            stay as they are. `Module.shared_bytes` says how much that is.
        fallback: "interpreter" runs the model there where there is no compiler (or no GPU for a cuda target), with
            a warning.
        options: what shapes the program, by the names that `tenon compile --help` has: `bind={"N": 1}`,
            `shapes={"x": (1, 3, 224, 224)}`, `ranges={"N": (1, 8)}`, `states={"h": "h_next"}`,
            `constants={"axes": "axes.npy"}`, `io={"x": "f16,nhwc"}`, `precision="fp16"`, `level=2`,
            `disable=["fuse.*"]`, `weights="file"`, …

    Raises:
        CompileError: the model or a setting was refused; says the node, what was expected, what to do.
        ToolMissing: there is no compiler, or no GPU for a cuda target.
        BuildError: the compiler failed.
        TenonError: an argument is none that there is.
    """
    if fallback not in (None, "interpreter"):
        raise TenonError(f"fallback: expected None or 'interpreter', found {fallback!r}")
    _check_numbers(threads, device)
    source = sources.read(model, example_inputs)
    if not isinstance(target, str):
        raise TenonError(f"target: expected a name such as 'cpu:native', found {target!r}; targets() lists them")
    cuda = target.startswith("cuda:")
    if not cuda and (shared := tuple(shared)):
        raise TenonError(f"shared: the weights of '{target}' lie in its own memory: expected a target such as 'cuda:native'")
    if not cuda and device:
        raise TenonError(f"device: '{target}' runs on no GPU: expected a target such as 'cuda:native', found {device}")
    if target == "interpreter":
        return _interpreted(source, options)
    if target.startswith("mcu:"):
        raise TenonError(f"{target}: the program runs in a firmware image; write its files with generate()")
    try:
        compiler = toolchain.compiler_for(cuda)
        if cuda:
            toolchain.check_gpu(target)
    except ToolMissing as error:
        if fallback is None:
            raise
        warnings.warn(f"{error}; running on the interpreter", stacklevel=2)
        return _interpreted(source, options)
    base = cache.key_of([source.digest(), target.encode(), _canonical(options), _build_identity(),
                        compiler.encode(), toolchain.compiler_version(compiler).encode(),
                        _machine(cuda).encode() if "native" in target else b""])  # fmt: skip
    key = _with_external_data(base)
    folder = cache.entry(key, _is_whole, _maker(source, target, options, base, cuda))
    if (whole := _with_external_data(base)) != key:  # known only now
        folder = cache.rename(key, whole)
    return _opened(folder, (source, target, options), threads, device, shared)


def generate(model: Any, target: str = "cpu:native", *, example_inputs: Sequence[Any] | None = None,
             name: str = "model", prefix: str = "", **options: Any) -> dict[str, bytes]:  # fmt: skip
    """The files that `tenon compile` writes: source, header, and weights where they are a file.

    Args:
        name: the files' stem.
        prefix: of the C interface; made of the name where empty.

    Raises:
        CompileError: the model or a setting was refused.
    """
    output, _ = _run_compiler(sources.read(model, example_inputs), target, options, name, prefix)
    return {file.name: file.bytes for file in output.files}


def load(folder: str | os.PathLike[str], *, threads: int = 1, device: int = 0,
         shared: Iterable[Any] = ()) -> Module:  # fmt: skip
    """The module that `Module.save` copied to `folder`; arguments as of `compile`.

    Raises:
        TenonError: there is none.
    """
    _check_numbers(threads, device)
    place = Path(folder).absolute()
    if not (place / _RECORD).is_file():
        raise TenonError(f"'{place}' holds no compiled module: there is no {_RECORD}")
    return _opened(place, None, threads, device, shared)


def targets() -> dict[str, str]:
    """What can be compiled for, and what each is."""
    return {target.name: target.summary for target in _native.targets()}


def version() -> str:
    """The compiler's version."""
    return str(_native.version())


def _check_numbers(threads: Any, device: Any) -> None:
    for name, value, low, high in (("threads", threads, 1, _MOST_THREADS), ("device", device, 0, None)):
        if not isinstance(value, Integral) or int(value) < low or (high is not None and int(value) > high):
            expected = f"{low} to {high}" if high is not None else f"{low} or more"
            raise TenonError(f"{name}: expected {expected}, found {value!r}")


def _request(source: sources.Model, target: str, options: dict[str, Any]) -> Any:
    request = _native.Request()
    request.model, request.target, request.settings = source.source(), target, _options.settings(options)
    return request


def _run_compiler(source: sources.Model, target: str, options: dict[str, Any], name: str, prefix: str) -> Any:
    """The compiler's output and messages."""
    request = _request(source, target, options)
    request.settings.name, request.settings.prefix = name, prefix
    output, messages = _native.compile(request)
    if output is None:
        raise CompileError([m for m in messages if m.severity != _native.Message.Severity.REMARK])
    return output, messages


def _with_external_data(base: str) -> str:
    """The key of a model whose own file has the key `base`: with the files that it refers to, which the
    compiler named when it last read it."""
    try:
        paths = json.loads(cache.read(f"{base}.files"))
    except (OSError, ValueError):
        return base
    return cache.key_of([base.encode(), *(sources.file_digest(Path(path)) for path in paths)])


def _maker(source: sources.Model, target: str, options: dict[str, Any], base: str, cuda: bool) -> Callable[[Path], None]:
    """What fills a folder of the cache."""
    stem = f"m{base[:16]}"

    def make(folder: Path) -> None:
        output, messages = _run_compiler(source, target, options, stem, stem)
        for file in output.files:
            (folder / file.name).write_bytes(file.bytes)
        code = folder / output.files[0].name
        toolchain.build_library(code, folder / f"{stem}.so", cuda)
        if output.files_read:
            cache.write(f"{base}.files", json.dumps(list(output.files_read)))
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        record = {"stem": stem, "cuda": cuda, "files": sizes, "interface": Interface.of(output.interface).to_json(),
                  "report": Report.of(output, messages),
                  "weights": [[w.name, w.offset, w.bytes] for w in output.weights]}  # fmt: skip
        (folder / _RECORD).write_text(json.dumps(record, indent=1))

    return make


def _is_whole(folder: Path) -> bool:
    """Whether a folder of the cache has all that `_maker` wrote; the record comes last."""
    try:
        sizes = json.loads((folder / _RECORD).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def _opened(folder: Path, source: Any, threads: int, device: int, shared: Iterable[Any]) -> Module:
    record = json.loads((folder / _RECORD).read_text())
    stem, number = record["stem"], device if record["cuda"] else None
    weights = folder / f"{stem}.weights"
    found = sharing.Shared()
    if number is not None and weights.exists():
        table = [sharing.Weight(*row) for row in record.get("weights", ())]
        found = sharing.find(weights, table, shared, number)
    program = _native.Program(str(folder / f"{stem}.so"), stem, str(weights) if weights.exists() else None, number,
                              list(found.pieces), found.holds)  # fmt: skip
    return Module(Interface.from_json(record["interface"]), Report.from_json(record["report"], source),
                  program=program, threads=threads, device=number, folder=folder, shared_bytes=found.bytes)  # fmt: skip


def _interpreted(source: sources.Model, options: dict[str, Any]) -> Module:
    model, messages = _native.InterpretedModel.load(_request(source, "cpu:generic", options))
    if model is None:
        raise CompileError(messages)
    report = Report(source.name, "interpreter", 0, 0, 0, 0, 0.0, (), (), tuple(map(str, messages)),
                    (source, "cpu:native", options))  # fmt: skip
    return Module(Interface.of(model.interface), report, interpreted=model)


def _canonical(options: dict[str, Any]) -> bytes:
    """Options as bytes of a key; files that they name by their content."""
    known = dict(options)
    for name in ("operators", "tuning"):
        known[name] = [sources.file_digest(Path(path)).hex() for path in options.get(name) or ()]
    known["constants"] = {n: sources.file_digest(Path(p)).hex() for n, p in (options.get("constants") or {}).items()}
    return json.dumps(known, sort_keys=True, default=str).encode()


def _build_identity() -> bytes:
    """This build of the package: versions stay as they are while one develops."""
    file = os.stat(_native.__file__)
    return f"{_native.version()} {file.st_size} {file.st_mtime_ns}".encode()


def _machine(cuda: bool) -> str:
    """What `native` depends on: the kind of the processor, or of the GPUs."""
    if cuda:
        return toolchain.gpus()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [line for line in file if line.startswith(("flags", "Features", "model name"))]
        return "".join(dict.fromkeys(lines))
    except OSError:
        return platform.processor()
