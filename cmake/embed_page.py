#!/usr/bin/env python3
"""Writes a C++ file that holds the page of tools/report as the string that tools/Inspection.cpp declares.

usage: embed_page.py PAGE OUTPUT
"""

import pathlib
import sys

from embed_runtime import literal_lines

page, output = map(pathlib.Path, sys.argv[1:])
lines = "\n    ".join(literal_lines(page.read_bytes()))
output.write_text(f"namespace tenon {{\nextern const char *const kReportPage;\nconst char *const kReportPage =\n    {lines};\n}} // namespace tenon\n")
