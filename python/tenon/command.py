"""The `tenon` command that the package carries."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def binary() -> Path:
    """Where the command is: TENON, else the package's own."""
    return Path(os.environ.get("TENON") or Path(__file__).parent / "bin" / "tenon")


def main() -> None:
    path = str(binary())
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
