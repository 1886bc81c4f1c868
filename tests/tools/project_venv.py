"""Runs a script in the project's virtual environment when the packages it needs are not here."""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def require(*packages):
    """Returns when every package can be imported; else restarts the script in ROOT/.venv."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if not missing:
        return
    python = ROOT / ".venv/bin/python"
    script = Path(sys.argv[0]).name
    if os.environ.get("TENON_IN_VENV") or not python.exists():
        sys.exit(f"{script}: needs {', '.join(missing)}; run scripts/setup first")
    os.environ["TENON_IN_VENV"] = "1"
    os.execv(python, [str(python), *sys.argv])
