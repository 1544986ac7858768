"""The file that says from which backup a data folder was restored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

NAME = "restored.json"


class Restored(NamedTuple):
    backup: str
    """Id of the backup."""
    created_at: datetime
    """Time of the backup."""
    restored_at: datetime


def write(folder: Path, backup: str, created_at: datetime) -> None:
    content = {
        "backup": backup,
        "backup_created_at": created_at.isoformat(),
        "restored_at": datetime.now(UTC).isoformat(),
    }
    (folder / NAME).write_text(json.dumps(content, indent=1) + "\n")


def read(folder: Path) -> Restored | None:
    """Return what a data folder was restored from, or None if it was not restored."""
    try:
        content = json.loads((folder / NAME).read_text())
        times = (content["backup_created_at"], content["restored_at"])
        return Restored(content["backup"], *map(datetime.fromisoformat, times))
    except (OSError, ValueError, KeyError):
        return None
