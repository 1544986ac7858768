"""Rotation of a log that other processes append to.

The file is copied and truncated, because its writers keep it open: sessions survive the supervisor,
and no writer ever waits for a reader. Lines that are written between the copy and the truncation
are lost.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MIB = 1 << 20


def max_bytes() -> int:
    return int(os.environ.get("BUSBAR_LOG_MAX_MIB", "10")) * MIB


def max_files() -> int:
    """Return the number of older logs that are kept."""
    return int(os.environ.get("BUSBAR_LOG_FILES", "5"))


def rotate_if_large(log: Path) -> bool:
    """Rotate a log that exceeds the limit: LOG becomes LOG.1, LOG.1 becomes LOG.2.

    Without space for the copy the oldest logs are deleted, and the log itself at last.
    """
    try:
        if log.stat().st_size <= max_bytes():
            return False
    except OSError:
        return False
    with contextlib.suppress(OSError):
        rotate(log, max_files())
    with contextlib.suppress(OSError):
        os.truncate(log, 0)
    return True


def rotate(log: Path, files: int) -> None:
    """Keep the newest part of the log as LOG.1. A partial copy is deleted."""
    older(log, files).unlink(missing_ok=True)
    for number in range(files - 1, 0, -1):
        if older(log, number).exists():
            older(log, number).replace(older(log, number + 1))
    if files < 1:
        return
    try:
        copy_end(log, older(log, 1), 2 * max_bytes())
    except OSError:
        older(log, 1).unlink(missing_ok=True)
        raise


def copy_end(log: Path, to: Path, most_bytes: int) -> None:
    """Copy the end of a log, which may grow faster than it is copied."""
    with log.open("rb") as source, to.open("wb") as copy:
        os.fchmod(copy.fileno(), 0o600)
        source.seek(max(0, os.fstat(source.fileno()).st_size - most_bytes))
        while most_bytes and (part := source.read(min(most_bytes, MIB))):
            most_bytes -= copy.write(part)


def older(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
