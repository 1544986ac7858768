"""SIGKILL of each process during a run, and the effect on programs and sessions."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.system.conftest import DEMO, VICTIMS, Pool

pytestmark = pytest.mark.system


def process_is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
def test_program_completes_correctly_after_process_is_killed(
    pool: Pool, victims: tuple[str, ...]
) -> None:
    program = pool.start_working(25, 600)
    pool.wait("the session", lambda: len(pool.sessions(state="running")) == 1)
    before = pool.sessions(state="running")[0]

    pool.kill(*victims)

    def session_is_reported_again() -> bool:
        now = [s for s in pool.sessions(state="running") if s["id"] == before["id"]]
        return bool(now) and now[0]["launches"] > before["launches"]

    pool.wait("the same session after the restart", session_is_reported_again)
    program.terminate()  # after the current round
    code, out, err = pool.finish(program)
    assert code == 0 and "correct after" in out, err
    assert [s["id"] for s in pool.sessions(allocation_id=before["allocation_id"])] == [before["id"]]


def test_session_opens_after_launcher_restart(pool: Pool) -> None:
    pool.kill("launcher")
    code, out, err = pool.finish(pool.start(25, DEMO, "add"))
    assert code == 0 and "correct" in out, err


def test_killed_session_server_fails_its_program_only(
    pool: Pool,
) -> None:
    doomed, neighbour = pool.start_working(25, 600), pool.start_working(25, 600)
    pool.wait("both sessions", lambda: len(pool.sessions(state="running")) == 2)
    sessions = {s["client_pid"]: s for s in pool.sessions(state="running")}
    mine = next(s for s in sessions.values() if parent_of(s["client_pid"]) == doomed.pid)
    os.kill(mine["pid"], signal.SIGKILL)

    code, _, err = pool.finish(doomed)
    assert code != 0
    assert "CUDA_ERROR_DEVICE_UNAVAILABLE" in err and "session server on the node ended" in err
    neighbour.terminate()  # after the current round
    code, out, err = pool.finish(neighbour)
    assert code == 0 and "correct after" in out, err
    killed = mine["id"]
    pool.wait(
        "the session's end in the database",
        lambda: pool.api.request("GET", f"sessions/{killed}")["state"] == "closed",
    )
    assert "signal" in pool.api.request("GET", f"sessions/{killed}")["end_reason"]


def test_killed_program_releases_allocation_and_session(pool: Pool) -> None:
    busbar = pool.start_working(25, 600)
    pool.wait("the session", lambda: len(pool.sessions(state="running")) == 1)
    session = pool.sessions(state="running")[0]
    os.kill(session["client_pid"], signal.SIGKILL)
    assert pool.finish(busbar)[0] == 128 + signal.SIGKILL
    pool.wait(
        "the release",
        lambda: (
            pool.api.request("GET", f"allocations/{session['allocation_id']}")["state"]
            == "released"
        ),
    )
    pool.wait("the session server's end", lambda: process_is_gone(session["pid"]))
    assert pool.api.request("GET", f"sessions/{session['id']}")["state"] == "closed"


def test_killed_busbar_command_releases_allocation_and_session(pool: Pool) -> None:
    busbar = pool.start_working(25, 600)
    pool.wait("the session", lambda: len(pool.sessions(state="running")) == 1)
    session = pool.sessions(state="running")[0]
    busbar.kill()
    pool.wait("the program's end", lambda: process_is_gone(session["client_pid"]))
    pool.wait("the session server's end", lambda: process_is_gone(session["pid"]))
    path = f"allocations/{session['allocation_id']}"
    with pool.short_lease():
        pool.wait("the release", lambda: pool.api.request("GET", path)["state"] == "released")
    assert pool.api.request("GET", f"sessions/{session['id']}")["state"] == "closed"


def test_release_ends_session(pool: Pool) -> None:
    program = pool.start_working(25, 600)
    pool.wait("the session", lambda: len(pool.sessions(state="running")) == 1)
    session = pool.sessions(state="running")[0]
    pool.api.request("DELETE", f"allocations/{session['allocation_id']}")
    pool.wait("the session server's end", lambda: process_is_gone(session["pid"]))
    code, _, err = pool.finish(program)
    assert code != 0 and "its allocation was released" in err
    path = f"sessions/{session['id']}"
    pool.wait("the report", lambda: pool.api.request("GET", path)["state"] == "closed")
    who = pool.api.request("GET", "me")["username"]
    assert pool.api.request("GET", path)["end_reason"] == f"released by {who}"
