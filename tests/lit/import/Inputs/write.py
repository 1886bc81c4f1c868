"""Writes the ONNX models that a test holds as text: everything between a line `model NAME` and a
line `end` is parsed by the onnx package and written to FOLDER/NAME.onnx.

    write.py TEST FOLDER
"""

import sys
from pathlib import Path

import onnx
import onnx.parser

source, folder = Path(sys.argv[1]), Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
name, lines = None, []
for line in source.read_text().splitlines():
    if name is None and line.startswith("model "):
        name, lines = line.split()[1], []
    elif name is not None and line == "end":
        model = onnx.parser.parse_model("\n".join(lines))
        onnx.save(model, folder / f"{name}.onnx")
        name = None
    elif name is not None:
        lines.append(line)
