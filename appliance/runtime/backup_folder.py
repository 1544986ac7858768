"""Check of a folder for backups, which may lie on a file system that does not respond."""

from __future__ import annotations

import os
import queue
import threading

PATIENCE_SECONDS = 3.0


def refusal_of_folder(folder: str) -> str:
    """Return why backups cannot be stored in a folder, and what to do; empty if they can.

    Blocks for 3 s at most: a file system that does not respond holds another thread.
    """
    found: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=lambda: found.put(_look_at(folder)), daemon=True).start()
    try:
        return found.get(timeout=PATIENCE_SECONDS)
    except queue.Empty:
        return f"The file system of {folder} does not respond. Mount it again."


def _look_at(folder: str) -> str:
    if not os.path.isdir(folder):
        return (
            f"There is no folder {folder} on the appliance's machine. Create it for the "
            "appliance's user."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return (
            f"The appliance's user cannot write to {folder}. Give the folder to this user, or "
            "name another one."
        )
    return ""
