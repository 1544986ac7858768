"""The session servers of a node, as processes."""

from __future__ import annotations

from pathlib import Path

from deploy.supervisor import wait_for
from tests.remoting.node import LocalNode


def _is_session_server(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "busbar-session"
    except OSError:
        return False  # the process has ended since it was listed


def session_servers(node: LocalNode) -> set[int]:
    """Return the pids of all session servers of the spawner, spares included."""
    children = Path(f"/proc/{node.spawner.pid}/task/{node.spawner.pid}/children").read_text()
    return {pid for pid in map(int, children.split()) if _is_session_server(pid)}


def wait_for_session_servers(node: LocalNode, count: int) -> None:
    log = node.folder / "launcher.log"
    wait_for(f"{count} session servers", lambda: len(session_servers(node)) == count, log)
