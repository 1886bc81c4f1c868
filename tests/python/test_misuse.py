"""Words that do not go together, or that the target or the model cannot follow, are refused: with status 2 where
the words alone are wrong and 1 where the model is, with a message that names what was given, and without a file
left behind. Options that all commands share are taken by all of them: where one makes no difference, that is said.

usage: test_misuse.py [-v]
"""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))

from tenon import binary

DIGITS = ROOT / "examples/digits/digits.onnx"
LATER = ROOT / "tests/lit/emit/cpu-bf16.tn"
SMALL = ROOT / "tests/lit/driver/Inputs/small.tn"

# Status, words (D: a network, S: a module as imported, P: one past that, N and T: slips of the first two, O: an output), what the
# message says.
CASES = """
2 | compile                                             | --output is required
2 | compile D                                           | --output is required
2 | compile -o O.cpp                                    | MODEL is required
2 | compile D -o O                                      | writes a .cpp file
2 | compile D -o O.txt                                  | writes a .cpp file
2 | compile D -o O.cpp --target=cuda:sm_80              | writes a .cu file
2 | compile D -o O.cpp --target=                        | target
2 | compile D -o O.cpp --target=cpu                     | unknown target 'cpu'
2 | compile D -o O.cpp --target=cuda:sm_80+cpu:generic  | target
2 | compile D -o O.cpp --target=interpreter             | runs and compares only
2 | compile D -o O.cu --target=cuda:sm90                | did you mean 'cuda:sm_90a'?
2 | compile D -o O.cu --target=CUDA:SM_90A              | did you mean 'cuda:sm_90a'?
2 | compile D -o O.cu --target=cuda:sm_80,sm_90a        | levels of GPUs are joined by '+'
2 | compile D -o O.cu --target=cuda                     | cuda targets are cuda:native, cuda:sm_75
2 | compile D -o .cpp                                   | writes a .cpp file
2 | compile D -o O.cpp -o P.cpp                         | --output: given 2 times, expected once
2 | compile D -o O.cpp --target                         | --target: expected T after it
2 | compile D -o O.cpp --disable=                       | --disable: expected ID,…, found ''
2 | compile D -o O.cpp --shape=image=1x1x8x8            | expected extents parted by commas
2 | compile D -o O.cpp --target=mcu:generic --weights=file | have their weights in the image
2 | compile D -o O.cpp --optimize=size                  | --optimize is for microcontrollers, and cpu:
2 | compile D -o O.cu --target=cuda:sm_80 --optimize=size | --optimize is for microcontrollers, and cuda:sm_80 is none
2 | compile D -o O.cpp --ram-limit=1000                 | --ram-limit is for microcontrollers
2 | compile D -o O.cpp --ram-limit=-1                   | --ram-limit: expected a number, 0 or more
2 | compile D -o O.cpp --pool=a=4096                    | --pool is for microcontrollers
2 | compile D -o O.cpp --target=mcu:generic --pool=a=1  | --pool: expected NAME=BYTES
2 | compile D -o O.cpp --target=mcu:rp2350 --pool=dtcm  | has sram of
2 | compile D -o O.cpp --clock=100M                     | --clock
2 | compile D -o O.cpp --target=mcu:cortex-m4 --clock=x | --clock: expected hertz
2 | compile D -o O.cu --target=cuda:sm_80 --hooks       | --hooks: layers of cuda:sm_80 run on the device
2 | compile D -o O.cu --target=cuda:sm_80 --threads=2   | compute on the device
2 | compile D -o O.cpp --target=mcu:generic --threads=2 | compute with one thread
2 | compile D -o O.cpp --threads=0                      | --threads: expected an integer from 1 to 64
2 | compile D -o O.cpp --threads=many                   | --threads: expected an integer
2 | compile D -o O.cpp --kernels=5                      | --kernels is for cuda targets
2 | compile D -o O.cu --target=cuda:sm_80 --text-bytes=9 | --text-bytes: programs for cuda:sm_80 take no text
2 | compile D -o O.cpp --precision=fp16                 | --precision: fp16 is for cuda targets
2 | compile D -o O.cpp --precision=int8                 | --precision
2 | compile D -o O.cu --target=cuda:sm_75 --precision=bf16 | multiply fp16 only
2 | compile D -o O.cpp --stage=optimized                | --stage: code comes after all stages
2 | compile P -o O.tn --emit=tn --stage=imported        | is past it
2 | compile D -o O.cpp --emit=ir                        | --emit: expected code or tn
2 | compile D -o O.cpp --report=everything              | 'everything' is not a report
2 | compile D -o O.cpp --disable=fuse.everything        | fuse.everything
2 | compile D -o O.cpp --debug-counter=fold             | --debug-counter
2 | compile D -o O.cpp --seeds=3                        | `tenon compile` has no option '--seeds'; `tenon run` and `tenon debug` have it
2 | compile D -o O.cpp --data=.                         | `tenon compile` has no option '--data'
2 | compile D -o O.cpp --io=image                       | --io
1 | compile D -o O.cpp --io=imag=f16                    | 'image'
1 | compile D -o O.cpp --bind=N=1                       | N
1 | compile D -o O.cpp --shape=imag=1,1,8,8             | image
1 | compile D -o O.cpp --shape=image=1,1,8              | image
1 | compile D -o O.cpp --range=N=1..8                   | N
1 | compile D -o O.cpp --state=a=b                      | a
1 | compile D -o O.cpp --decoder=64                     | decoder
2 | compile D -o O.cpp --decoder=none                   | --decoder
1 | compile D -o O.cpp --op=nowhere.tn                  | nowhere.tn
1 | compile D -o O.cpp --tuning=nowhere.json            | nowhere.json
1 | compile nowhere.onnx -o O.cpp                       | nowhere.onnx
1 | compile N -o O.cpp                                  | No such file or directory; did you mean 'digits.onnx'?
1 | compile D -o O.cpp --op=T                           | No such file or directory; did you mean 'small.tn'?
1 | compile . -o O.cpp                                  | .
1 | compile D -o nowhere/O.cpp                          | nowhere
1 | compile D -o O.cpp --depfile=nowhere/O.d            | cannot write 'nowhere/O.d'
1 | compile D -o .                                      | cannot write '.': Is a directory
2 | compile D -o O.cpp --weights=none                   | --weights: expected auto, inline, incbin or file
2 | compile D -o O.cpp -O4                              | -O: expected an integer from 0 to 3
2 | compile D -o O.cpp --color=blue                     | --color: expected auto, always or never
2 | compile D D -o O.cpp                                | expected one MODEL
2 | run D --clock=1M                                    | `tenon run` has no option '--clock'; `tenon compile` has it
2 | run D -o O.npy                                      | '-o'
2 | run D --target=interpreter --report=kernels         | --report: nothing is compiled for the interpreter
2 | run D --target=interpreter --against=interpreter    | --against=interpreter
2 | run D --seeds=-1                                    | --seeds: expected an integer, 0 or more
2 | run D --group-tolerance=1                           | --group-tolerance: is for --check=groups
2 | run D --save-all=O                                  | --save-all needs --target=interpreter
2 | run D --against=interpreter --reference=D           | --against: --reference says what is expected
2 | run D --against=cpu:generic+                        | cpu:generic+
2 | run D --check=some                                  | --check: expected outputs or groups
2 | run D --tolerance=-1                                | --tolerance: expected a number, 0 or more
2 | run D --optimize=size                               | --optimize is for microcontrollers
2 | run D --target=mcu:cortex-m99                       | no kernels are written
1 | run D --input=image=nowhere.npy                     | nowhere.npy
1 | run D --input=imag=nowhere.npy                      | imag
1 | run D --data=nowhere                                | nowhere
1 | run D --reference=nowhere.onnx                      | nowhere.onnx
1 | run D --save=D                                      | Not a directory
1 | bench D --trace=nowhere/O.json                      | cannot write 'nowhere/O.json'
2 | bench D --save=O                                    | `tenon bench` has no option '--save'; `tenon run` has it
2 | bench D --seconds=0                                 | --seconds: expected a number, more than 0
2 | bench D --runs=0                                    | --runs: expected a number, more than 0
2 | bench D --contexts=0                                | --contexts: expected an integer from 1 to 64
2 | bench D --target=interpreter                        | runs and compares only
2 | bench D --target=mcu:generic --contexts=2           | has one context
2 | bench D --target=mcu:cortex-m4 --trace=O.json       | is emulated
2 | inspect D --json --format=dot                       | --json: --format=dot says otherwise
2 | inspect D --format=pdf                              | --format: expected text, json, dot or html
2 | inspect D --tensor-cores                            | has none; name a GPU
2 | inspect D --profile=O.json                          | add --format=html
1 | inspect D --format=html --profile=nowhere.json      | nowhere.json
2 | inspect D --target=mcu:generic --threads=2          | compute with one thread
2 | debug D --target=interpreter                        | name another target
2 | debug D --bound=x                                   | --bound: expected a number
2 | debug D --check=outputs                             | `tenon debug` has no option '--check'; `tenon run` has it
2 | tune D                                              | name the tuning file with -o FILE
1 | tune D -o nowhere/O.json                            | cannot write 'nowhere/O.json'
2 | tune D -o O.json --target=mcu:cortex-m4             | its kernels leave nothing to choose
2 | tune D -o O.json --target=cuda:sm_80+sm_90a         | one machine level is tuned at a time
2 | run D --target=mcu:generic --search=exhaustive      | its kernels leave nothing to choose
2 | tune D --program=O.cpp --jobs=2                     | --jobs
2 | calibrate D -o O.tn                                 | --data is required
2 | calibrate D --data=. -o O.onnx                      | expected a name that ends in .tn
2 | calibrate D --data=. -o O.tn --target=cuda:sm_80    | `tenon calibrate` has no option '--target'
2 | calibrate D --data=. -o O.tn --save-ranges=O.json   | expects --no-equalize
1 | calibrate D --data=. -o nowhere/O.tn                | cannot write 'nowhere/O.tn'
1 | calibrate D --data=nowhere -o O.tn                  | nowhere
2 | opt D --elide -o O.tn                               | --elide: a file's large literals stand beside it
2 | opt D -o O.onnx                                     | expected a name that ends in .tn
2 | opt D --passes=fuse,fold2                           | 'fold2' is not a pass
2 | opt D --target=cuda:sm_80                           | `tenon opt` has no option '--target'
2 | opt D --json                                        | standard output is taken by the IR
2 | export D -o -                                       | give it a file
2 | export D -o O.tn                                    | expected a name such as Q.onnx
2 | export D -o O.onnx --stage=scheduled                | --stage: expected imported or optimized
2 | pack D --for=arduino -o O --target=cpu:generic      | packs are for microcontrollers
2 | pack D --for=esp-idf -o O --target=mcu:cortex-m4    | have other cores
2 | pack D --for=arduino -o O --pool=a=4096             | --pool
2 | pack D --for=arduino -o O --runtime=include         | --runtime
2 | pack D --for=mbed -o O                              | --for: expected arduino
2 | pack D -o O                                         | --for is required
1 | reduce nowhere.tn -o O.tn                           | nowhere.tn
2 | reduce S -o O.tn                                    | is no reproducer
2 | reduce S -o O.tn --passes=fold --test=false         | --test: --passes says what fails
2 | reduce S -o O.tn --passes=fold                      | nothing fails
2 | targets --target=cpu:generic                        | `tenon targets` has no option '--target'
2 | ops --markdown --json                               | --json: --markdown is the whole reference
2 | ops --markdown --onnx                               | --onnx: --markdown is the whole reference
2 | passes fold                                         | unexpected 'fold'
2 | doctor D                                            | unexpected
2 | completion tcsh                                     | expected bash, zsh or fish
2 | help compile --man                                  | expected one of COMMAND, --markdown and --man
2 | help --man --markdown                               | expected one of COMMAND, --markdown and --man
2 | version                                             | unknown command 'version'
2 | --verbose                                           | unknown option '--verbose'
"""

# What is done all the same, and what the warning says.
WARNED = """
compile D -o O.tn --emit=tn --hooks                 | --hooks: shapes the code, and --emit=tn writes IR
compile D -o O.tn --emit=tn --weights=file          | --weights: shapes the code
compile D -o O.tn --emit=tn --stage=imported -O0    | -O: no pass runs before --stage=optimized
run D --hooks --prefix=net                          | --hooks: shapes the files that `tenon compile` and `tenon pack`
run D --target=interpreter --precision=fp16         | --precision: nothing is compiled for the interpreter
run D --target=interpreter --keep                   | --keep: nothing is compiled for the interpreter
run D --target=interpreter -O0                      | -O: the interpreter runs the model as imported
run D --target=interpreter --disable=fold           | --disable: the interpreter runs the model as imported
inspect D --report=fusion --prefix=net              | --report: is printed by `tenon compile`, `run` and `bench`
debug D --report=fusion                             | --report: is printed by `tenon compile`, `run` and `bench`
opt D -O2                                           | -O: the passes are those of --passes
export D -o O.onnx --stage=imported --disable=fold  | --disable: no pass runs before --stage=optimized
pack D --for=arduino -o O --target=mcu:cortex-m4 --report=memory | --report: is printed by
"""


def rows():
    for line in CASES.strip().splitlines():
        status, words, said = (part.strip() for part in line.split(" | "))
        yield int(status), words, said


def answered(words: str, folder: Path) -> tuple[subprocess.CompletedProcess, list[Path]]:
    """What a command answers, and the files that it left."""
    replaced = {"D": str(DIGITS), "S": str(SMALL), "P": str(LATER), "N": str(DIGITS.with_name("digit.onx")),
                "--op=T": f"--op={SMALL.with_name('smal.tn')}"}  # fmt: skip
    given = [replaced.get(word, word) for word in shlex.split(re.sub(r"--(reference|save)=D\b", rf"--\1={DIGITS}", words))]
    answer = subprocess.run([binary(), *given], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            timeout=300)  # fmt: skip
    return answer, sorted(folder.rglob("*"))


def main() -> int:
    passed = failed = 0
    for status, words, said in rows():
        with tempfile.TemporaryDirectory(prefix="tenon-misuse-") as name:
            answer, left = answered(words, Path(name))
        wrong = []
        if answer.returncode != status:
            wrong.append(f"status {answer.returncode}, expected {status}")
        if said not in answer.stderr:
            wrong.append(f"no '{said}'")
        if not answer.stderr.startswith("error: "):
            wrong.append("no line that begins with 'error: '")
        if answer.stdout:
            wrong.append("something on standard output")
        if left:
            wrong.append(f"left {', '.join(path.name for path in left)}")
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong or "-v" in sys.argv:
            print(f"tenon {words}: {'; '.join(wrong) or 'refused'}\n  {answer.stdout[:200]}{answer.stderr[:600].strip()}")
    for line in WARNED.strip().splitlines():
        words, said = (part.strip() for part in line.split(" | "))
        with tempfile.TemporaryDirectory(prefix="tenon-misuse-") as name:
            answer, _ = answered(words, Path(name))
        warnings = [text for text in answer.stderr.splitlines() if text.startswith("warning: " + said)]
        wrong = answer.returncode != 0 or not warnings
        passed, failed = passed + (not wrong), failed + wrong
        if wrong:
            print(f"tenon {words}: status {answer.returncode}, expected a warning '{said}'\n  {answer.stderr[:600]}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
