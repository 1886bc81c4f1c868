#!/usr/bin/env python3
"""Writes on from a prompt with a decoder that Tenon compiled, built as a shared library.

    generate.py LIBRARY --tokenizer=tokenizer.json [--count=100] [--temperature=0.8] [--top-k=0] [--top-p=0.95]
                [--seed=1] [--stop=TEXT,...] PROMPT
    generate.py LIBRARY --ids PROMPT      the prompt is numbers of tokens, and so is what is printed
    generate.py --encode --tokenizer=tokenizer.json PROMPT, --decode < numbers      for other programs

Prints the text as it is made and, on standard error, tokens per second. The library's name is the prefix of
its functions; x.weights is looked for beside x.so. Needs the package tokenizers, but with --ids.
"""

import argparse
import ctypes
import sys
import time
from pathlib import Path


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("weights_path", ctypes.c_char_p), ("weights", ctypes.c_void_p),
                ("weights_bytes", ctypes.c_size_t), ("device", ctypes.c_int), ("threads", ctypes.c_int),
                ("allocate", ctypes.c_void_p), ("release", ctypes.c_void_p), ("user", ctypes.c_void_p)]  # fmt: skip


class Sampling(ctypes.Structure):
    _fields_ = [("temperature", ctypes.c_float), ("top_k", ctypes.c_int), ("top_p", ctypes.c_float),
                ("seed", ctypes.c_ulong), ("stop", ctypes.POINTER(ctypes.c_int)), ("stop_count", ctypes.c_int)]  # fmt: skip


class Decoder:
    """A model and one context. Errors of the library are raised with its words."""

    FULL = 6

    def __init__(self, library):
        library = Path(library).resolve()
        self.prefix, self.code = library.stem, ctypes.CDLL(str(library))
        self.model, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        weights = library.with_suffix(".weights")
        options = Options(size=ctypes.sizeof(Options),
                          weights_path=str(weights).encode() if weights.exists() else None)  # fmt: skip
        self.call("model_open", ctypes.byref(options), ctypes.byref(self.model))
        self.call("context_create", self.model, ctypes.byref(self.context))

    def call(self, name, *arguments, allowed=()):
        code = getattr(self.code, f"{self.prefix}_{name}")(*arguments)
        if code and code not in allowed:
            message = getattr(self.code, f"{self.prefix}_error_message")
            message.restype = ctypes.c_char_p
            raise SystemExit(f"{self.prefix}_{name}: {message(code).decode()}")
        return code

    def append(self, tokens):
        given = (ctypes.c_int * len(tokens))(*tokens)
        self.call("run_tokens", self.context, given, len(tokens), None, None, 0)

    def draw(self, how):
        """The next token, appended; None at a stop token and where the caches are full."""
        token, made = ctypes.c_int(), ctypes.c_int()
        self.call("run_generate", self.context, ctypes.byref(how), 1, None, ctypes.byref(token),
                  ctypes.byref(made), allowed=[self.FULL])  # fmt: skip
        return token.value if made.value else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="LIBRARY PROMPT")
    parser.add_argument("--tokenizer")
    parser.add_argument("--ids", action="store_true")
    parser.add_argument("--encode", action="store_true")
    parser.add_argument("--decode", action="store_true")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop", default="")
    given = parser.parse_intermixed_args()
    if len(given.words) != 2 - (given.encode + 2 * given.decode):
        parser.error("expected a library and a prompt, only the prompt with --encode, neither with --decode")

    tokenizer = None
    if not given.ids:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(given.tokenizer)
    if given.encode:
        print(*tokenizer.encode(given.words[0]).ids)
        return
    if given.decode:
        print(tokenizer.decode([int(word) for word in sys.stdin.read().split()]))
        return

    prompt = given.words[1]
    tokens = [int(word) for word in prompt.split()] if given.ids else tokenizer.encode(prompt).ids
    names = [name for name in given.stop.split(",") if name]
    stops = [int(name) if given.ids else tokenizer.token_to_id(name) for name in names]
    if None in stops:
        raise SystemExit(f"--stop: the tokenizer has no token {names[stops.index(None)]!r}")
    how = Sampling(given.temperature, given.top_k, given.top_p, given.seed, (ctypes.c_int * len(stops))(*stops), len(stops))

    decoder = Decoder(given.words[0])
    start = time.perf_counter()
    decoder.append(tokens)
    prefill = time.perf_counter() - start
    made, shown, start = [], "", time.perf_counter()
    while len(made) < given.count and (token := decoder.draw(how)) is not None:
        made.append(token)
        if given.ids:
            print(token, flush=True)
            continue
        text = tokenizer.decode(made)
        if not text.endswith("\ufffd"):  # a character is not whole yet
            print(text[len(shown) :], end="", flush=True)
            shown = text
    generation = time.perf_counter() - start
    print(f"\nprompt: {len(tokens)} tokens, {len(tokens) / prefill:.1f} tokens/s; "
          f"text: {len(made)} tokens, {len(made) / generation:.1f} tokens/s", file=sys.stderr)  # fmt: skip


if __name__ == "__main__":
    main()
