"""What a language model does beside single runs: tokens in, logits out, generation, taking tokens back."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays, types
from .errors import InputError, TenonError
from .interface import Decoder, Interface

if TYPE_CHECKING:
    from .module import Context

_SINGLE_ROWS = 16  # logits of several tokens where a pass has those of its last one (runtime/common/decoder.h)


class Decoding:
    """Functions of a model that was compiled with `decoder=`: of a `Context`, and of a `Module` on the context
    of its own. One context holds one sequence without padding; tokens and logits lie in host memory, on GPUs
    as well."""

    _interface: Interface

    def _sequence(self) -> Context:
        """The context that holds the sequence."""
        raise NotImplementedError

    @property
    def capacity(self) -> int:
        """Tokens that the caches hold.

        Raises:
            TenonError: the model was not compiled with `decoder=`.
        """
        return self._decoder().capacity

    @property
    def vocabulary(self) -> int:
        """Logits of a token; tokens are numbers from 0 to `vocabulary` - 1.

        Raises:
            TenonError: the model was not compiled with `decoder=`.
        """
        return self._decoder().vocabulary

    @property
    def length(self) -> int:
        """Tokens that the caches hold now.

        Raises:
            TenonError: the model was not compiled with `decoder=`.
        """
        self._decoder()
        context = self._sequence()
        with context._lock:
            return context._length()

    def set_length(self, length: int) -> None:
        """Takes the last tokens back, so that `length` of them stay; 0 begins anew. What was drawn is drawn
        again only after a token was appended: the logits belong to what was taken.

        Args:
            length: 0 to `self.length`, in tokens.

        Raises:
            InputError: there are not so many tokens, or the model also carries something that is no cache
                and can go back to 0 alone.
            TenonError: the model was not compiled with `decoder=`.
        """
        decoder, context = self._decoder(), self._sequence()
        length = operator.index(length)
        with context._lock:
            now = context._length()
            if not 0 <= length <= now:
                raise InputError(f"length: expected 0 to {now}, the tokens that there are, found {length}")
            if length not in (0, now) and not decoder.shortens:
                raise InputError(f"length: expected 0 or {now}, found {length}: the model carries a state that is no "
                                 "cache of tokens; begin anew with set_length(0)")  # fmt: skip
            context._set_length(length)

    def run_tokens(self, tokens: Sequence[int] | np.ndarray, *, rows: int = 1,
                   inputs: Mapping[str, Any] | None = None) -> np.ndarray:  # fmt: skip
        """Appends tokens to the sequence, any number at once, and gives the logits of the last of them.

        Args:
            tokens: numbers, [n] or [1, n].
            rows: of how many tokens, counted from the end: 0 to n. Where the model was compiled with
                `logits=last` (as it is without another word) at most 16, and each row beside the last one
                takes a pass of its own.
            inputs: values of the model's other inputs by name, where it has some.

        Returns:
            Logits, [rows, vocabulary], of the type that the model's have.

        Raises:
            InputError: something does not fit; nothing was appended.
            RunError: the generated code failed (of a GPU: its error).
            TenonError: the model was not compiled with `decoder=`.
        """
        decoder, context = self._decoder(), self._sequence()
        numbers = _tokens(decoder, tokens, "tokens")
        most = min(len(numbers), _SINGLE_ROWS) if decoder.last_logits else len(numbers)
        rows = operator.index(rows)
        if not 0 <= rows <= most:
            why = "; compile with decoder='…,logits=all' for more" if most < len(numbers) else ""
            raise InputError(f"rows: expected 0 to {most}, found {rows}{why}")
        logits = np.empty((rows, decoder.vocabulary), types.ELEMENTS[decoder.logits].dtype)
        others = self._others(decoder, inputs)
        with context._lock:
            if len(numbers) > (room := decoder.capacity - context._length()):
                raise InputError(f"tokens: expected at most {room}, which the caches have room for of {decoder.capacity}, "
                                 f"found {len(numbers)}; take some back with set_length(), or compile with a larger "
                                 "decoder=")  # fmt: skip
            context._run_tokens(numbers, others, logits, rows)
        return logits

    def generate(self, tokens: Sequence[int] | np.ndarray = (), max_tokens: int | None = None, *,
                 temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0,
                 stop: int | Sequence[int] = (), inputs: Mapping[str, Any] | None = None) -> list[int]:  # fmt: skip
        """Appends tokens, then draws others one after the other and appends these.

        Args:
            tokens: the prompt, or what comes behind the sequence that there is; numbers, [n] or [1, n].
            max_tokens: of those drawn, at most; None: until the caches are full.
            temperature: 0 takes the largest logit, 1 the model's own distribution; larger is more even.
            top_k: draws from so many of the likeliest tokens; 0: from all.
            top_p: draws from the likeliest tokens that have this share together; 1: from all.
            seed: the same one gives the same tokens for the same logits, on every target; 0 to 2**32 - 1.
            stop: tokens that end the text. They are not appended and not among the answer.
            inputs: values of the model's other inputs by name, where it has some.

        Returns:
            The tokens drawn. They are fewer than `max_tokens` where one of `stop` was drawn, or the caches were
            full (`length` is `capacity` then).

        Raises:
            InputError: something does not fit, or the sequence is empty.
            RunError: the generated code failed (of a GPU: its error).
            TenonError: the model was not compiled with `decoder=`.
        """
        draw = self._drawing(tokens, max_tokens, temperature, top_k, top_p, seed, stop, inputs)
        return draw(_most(self.capacity, max_tokens))

    def stream(self, tokens: Sequence[int] | np.ndarray = (), max_tokens: int | None = None, *,
               temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0,
               stop: int | Sequence[int] = (), inputs: Mapping[str, Any] | None = None) -> Iterator[int]:  # fmt: skip
        """As `generate`, token by token as they are drawn. The arguments are checked and `tokens` appended
        before the first one is asked for.

            for token in module.stream(prompt, 100, stop=end):
                print(tokenizer.decode([token]), end="", flush=True)
        """
        draw = self._drawing(tokens, max_tokens, temperature, top_k, top_p, seed, stop, inputs)
        most = _most(self.capacity, max_tokens)

        def drawn() -> Iterator[int]:
            for _ in range(most):
                one = draw(1)
                if not one:
                    return
                yield one[0]

        return drawn()

    def _drawing(self, tokens: Any, max_tokens: Any, temperature: float, top_k: int, top_p: float, seed: int,
                 stop: Any, inputs: Any) -> Callable[[int], list[int]]:  # fmt: skip
        """Checks everything and appends `tokens`; gives the function that draws up to so many."""
        decoder, context = self._decoder(), self._sequence()
        if max_tokens is not None and max_tokens < 0:
            raise InputError(f"max_tokens: expected 0 or more, or None, found {max_tokens}")
        for name, good, expected, value in (("temperature", temperature >= 0, "0 or more", temperature),
                                            ("top_k", top_k >= 0, "0 or more", top_k),
                                            ("top_p", 0 < top_p <= 1, "more than 0, at most 1", top_p),
                                            ("seed", 0 <= seed < 2**32, "0 to 2**32 - 1", seed)):  # fmt: skip
            if not good:
                raise InputError(f"{name}: expected {expected}, found {value}")
        ends = _tokens(decoder, [stop] if isinstance(stop, (int, np.integer)) else stop, "stop")
        numbers = _tokens(decoder, tokens, "tokens")
        others = self._others(decoder, inputs)
        if numbers:
            self.run_tokens(numbers, rows=0, inputs=inputs)
        elif self.length == 0:
            raise InputError("tokens: expected one at least, since the sequence is empty")

        def draw(count: int) -> list[int]:
            with context._lock:
                return context._draw(count, float(temperature), int(top_k), float(top_p), int(seed), ends, others)

        return draw

    def _decoder(self) -> Decoder:
        if self._interface.decoder is None:
            raise TenonError("the model takes no tokens: compile it with decoder=MAX, the tokens that its caches hold")
        return self._interface.decoder

    def _others(self, decoder: Decoder, inputs: Mapping[str, Any] | None) -> list[Any]:
        """The memory of the inputs in the model's order; the tokens have none."""
        given, ports = dict(inputs or {}), self._interface.inputs
        buffers: list[Any] = [None] * len(ports)
        for place, port in enumerate(ports):
            if place == decoder.tokens:
                continue
            if port.name not in given:
                raise InputError(f"inputs: there is no value for {port}")
            buffer = buffers[place] = arrays.read_input(port, given.pop(port.name))
            if buffer.device is not None:
                raise InputError(f"input '{port.name}': it lies on GPU {buffer.device}; of decoders inputs lie in host "
                                 "memory")  # fmt: skip
            expected = [e.value({}) for e in port.extents]
            if len(expected) != len(buffer.shape) or any(e not in (None, n) for e, n in zip(expected, buffer.shape)):
                raise InputError(f"input '{port.name}': expected the shape {list(port.shape)}, found {list(buffer.shape)}")
        if given:
            names = [p.name for n, p in enumerate(ports) if n != decoder.tokens]
            raise InputError(f"inputs: there is no input '{next(iter(given))}' beside the tokens; there are "
                             f"{', '.join(names) or 'none'}")  # fmt: skip
        return buffers


def _most(capacity: int, max_tokens: int | None) -> int:
    return capacity if max_tokens is None else min(operator.index(max_tokens), capacity)


def _tokens(decoder: Decoder, tokens: Any, what: str) -> list[int]:
    """The numbers of tokens."""
    array = np.asarray(tokens)
    if array.ndim == 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 1:
        raise InputError(f"{what}: expected numbers of tokens, [n] or [1, n], found the shape {list(array.shape)}")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{what}: expected integers, found {array.dtype.name}")
    for place, token in enumerate(array.tolist()):
        if not 0 <= token < decoder.vocabulary:
            raise InputError(f"{what}: expected 0 to {decoder.vocabulary - 1}, found {token} in place {place}")
    return [int(token) for token in array.tolist()]
