"""Prints, for every source, a key of all that its checks depend on, and the source: two are alike when
the checks, the source and the project's headers that it includes have the same bytes.

usage: keys.py CHECKS SOURCE...    from the root of the tree
"""

import hashlib
import re
import sys
from functools import lru_cache
from pathlib import Path

INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
RULES = [Path(".clang-tidy"), Path("tests/lint/dangling.query")]


@lru_cache(maxsize=None)
def read(path):
    """The digest of a file, and the project's files that it includes itself."""
    data = path.read_bytes()
    named = [name.decode() for name in INCLUDE.findall(data)]
    found = (next((p for p in (path.parent / name, Path(name)) if p.is_file()), None)
             for name in named)  # fmt: skip
    return hashlib.sha256(data).hexdigest(), [p for p in found if p]


def key(checks, source):
    seen, todo = set(), [source, *RULES]
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo += read(path)[1]
    text = "\n".join([checks, str(source), *(f"{path} {read(path)[0]}" for path in sorted(seen))])
    return hashlib.sha256(text.encode()).hexdigest()


for name in sys.argv[2:]:
    print(key(sys.argv[1], Path(name)), name)
