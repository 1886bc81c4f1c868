"""Writes a program FOLDER/nvidia-smi that names one GPU of compute capability CAPABILITY.

usage: gpu.py FOLDER CAPABILITY
"""

import pathlib
import sys

program = pathlib.Path(sys.argv[1]) / "nvidia-smi"
program.write_text(f"#!/bin/sh\necho '{sys.argv[2]}'\n")
program.chmod(0o755)
