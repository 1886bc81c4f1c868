"""Compiled models by their content, in the user's cache folder.

An entry is a folder called by the hash of all that its content depends on. It appears by one rename, so
that what is there is whole, whoever else compiles the same at the time. Where the cache cannot be written or is full,
entries last as long as the process."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path


def folder() -> Path:
    """TENON_CACHE, else tenon below XDG_CACHE_HOME, else ~/.cache/tenon."""
    if named := os.environ.get("TENON_CACHE"):
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tenon"


_refused: set[Path] = set()


def _writable() -> Path:
    """Where new entries go: `folder()`, or one of this process where that cannot be written."""
    place = folder()
    if place not in _refused:
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                return place
        except OSError as error:
            _refuse(place, error.strerror or str(error))
    return Path(_of_process().name)


def _refuse(place: Path, why: str) -> None:
    _refused.add(place)
    warnings.warn(f"the cache folder '{place}' cannot be written ({why}): what is compiled lasts as long "
                  "as this process; name another folder in TENON_CACHE", stacklevel=3)  # fmt: skip


def _is_full(place: Path) -> bool:
    return shutil.disk_usage(place).free < 1 << 20


@functools.cache
def _of_process() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tenon-cache-")


def key_of(parts: Iterable[bytes]) -> str:
    """A name for what is made of `parts`."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:40]


def entry(key: str, is_valid: Callable[[Path], bool], make: Callable[[Path], None]) -> Path:
    """The folder of `key`; `make` fills it where there is none, or none that `is_valid`.

    What `make` raises leaves nothing behind."""
    place = folder() / key
    if place.is_dir() and is_valid(place):
        return place
    if (other := _writable() / key) != place:
        place = other
        if place.is_dir() and is_valid(place):
            return place
    scratch = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=place.parent))
    try:
        make(scratch)
        scratch.chmod(0o755)
        if place.is_dir() and not is_valid(place):
            shutil.rmtree(place, ignore_errors=True)
        try:
            scratch.rename(place)
        except OSError:  # somebody else was first
            if not place.is_dir():
                raise
    except Exception:  # of this process or of the compiler that it started
        if place.parent in _refused or not _is_full(place.parent):
            raise
        _refuse(place.parent, "no space is left on its device")
    else:
        return place
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return entry(key, is_valid, make)


def rename(key: str, other: str) -> Path:
    """Calls the entry `key` by another key, under which there may be one already. A loaded library stays what
    it was by its path, so what has changed gets another one."""
    place, now = _writable() / other, _writable() / key
    try:
        now.rename(place)
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(now, ignore_errors=True)
    return place


def read(name: str) -> str:
    """What `write` wrote.

    Raises:
        OSError: there is none.
    """
    try:
        return (folder() / name).read_text()
    except OSError:
        if folder() not in _refused:
            raise
        return (_writable() / name).read_text()


def write(name: str, text: str) -> None:
    """A small file beside the entries, by one rename."""
    scratch = tempfile.NamedTemporaryFile("w", dir=_writable(), prefix=f"{name}.", delete=False)
    with scratch:
        scratch.write(text)
    os.replace(scratch.name, _writable() / name)


def clear() -> None:
    """Removes all entries."""
    shutil.rmtree(folder(), ignore_errors=True)
