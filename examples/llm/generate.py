#!/usr/bin/env python3
"""Writes on from a prompt with a decoder that Tenon compiles, by the Python package.

    generate.py MODEL --decoder=4096 --tokenizer=tokenizer.json [--count=100] [--temperature=0.8] [--top-k=0]
                [--top-p=0.95] [--seed=1] [--stop=TEXT,...] [--target=cpu:native] [--threads=1] PROMPT
    generate.py MODEL --decoder=4096 --ids PROMPT     the prompt is numbers of tokens, and so is what is printed
    generate.py --encode --tokenizer=tokenizer.json PROMPT, --decode < numbers      for other programs

MODEL is the exporter's .onnx file, or a folder that Module.save wrote. What was compiled before comes from the
cache. Prints the text as it is made and, on standard error, tokens per second. Needs the package tokenizers,
but with --ids.
"""

import argparse
import sys
import time
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="MODEL PROMPT")
    parser.add_argument("--decoder", default="4096,prefill=128")
    parser.add_argument("--target", default="cpu:native")
    parser.add_argument("--threads", type=int, default=1)
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
        parser.error("expected a model and a prompt, only the prompt with --encode, neither with --decode")

    tokenizer = None
    if not given.ids:
        if not given.tokenizer:
            parser.error("expected --tokenizer, or --ids for numbers of tokens")
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(given.tokenizer)
    if given.encode:
        print(*tokenizer.encode(given.words[0]).ids)
        return
    if given.decode:
        print(tokenizer.decode([int(word) for word in sys.stdin.read().split()]))
        return

    import tenon

    model, prompt = given.words
    tokens = [int(word) for word in prompt.split()] if given.ids else tokenizer.encode(prompt).ids
    names = [name for name in given.stop.split(",") if name]
    stops = [int(name) if given.ids else tokenizer.token_to_id(name) for name in names]
    if None in stops:
        raise SystemExit(f"--stop: the tokenizer has no token {names[stops.index(None)]!r}")
    if Path(model).is_dir():
        module = tenon.load(model, threads=given.threads)
    else:
        module = tenon.compile(model, given.target, threads=given.threads, decoder=given.decoder)

    start = time.perf_counter()
    module.run_tokens(tokens, rows=0)
    prefill = time.perf_counter() - start
    made, shown, start = [], "", time.perf_counter()
    for token in module.stream(max_tokens=given.count, temperature=given.temperature, top_k=given.top_k,
                               top_p=given.top_p, seed=given.seed, stop=stops):  # fmt: skip
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
