"""Runs a command and succeeds when its exit status is the first argument."""

import subprocess
import sys

status = subprocess.run(sys.argv[2:]).returncode
if status != int(sys.argv[1]):
    print(f"status {status}, expected {sys.argv[1]}", file=sys.stderr)
    sys.exit(1)
