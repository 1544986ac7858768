"""What this machine is to the appliance, on disk: written whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    node_id: str
    node_name: str
    fleet_address: str


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    fresh.replace(path)


def save_identity(folder: Path, identity: Identity) -> None:
    write_atomically(folder / "identity.json", json.dumps(asdict(identity)).encode())


def load_identity(folder: Path) -> Identity | None:
    try:
        return Identity(**json.loads((folder / "identity.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
