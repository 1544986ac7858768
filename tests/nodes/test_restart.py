"""Restart of an upgraded node without systemd."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nodes import service_control
from nodes.errors import NodeError

IGNORE_SIGHUP = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A node that was started. The list grows when it is started again."""
    calls: list[str] = []
    monkeypatch.setattr(service_control, "has_systemd", lambda: False)
    monkeypatch.setattr(service_control, "PID_FILE", tmp_path / "service.pid")
    monkeypatch.setattr(service_control, "PROGRAMS", tmp_path)
    monkeypatch.setattr(service_control, "start", lambda: calls.append("start"))
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "service.pid").write_text(str(ended.pid))
    return calls


def test_node_whose_restart_was_interrupted_is_started(started: list[str]) -> None:
    service_control.restart_if_enabled()
    assert started == ["start"]


def test_node_that_was_stopped_is_not_started(started: list[str]) -> None:
    service_control.stop()
    service_control.restart_if_enabled()
    assert started == []


def test_supervisor_that_does_not_end_is_an_error(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_control, "STOP_SECONDS", 0.1)
    command = [sys.executable, "-c", IGNORE_SIGHUP, "nodes.service"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None and supervisor.stdout.readline() == b"ready\n"
        (tmp_path / "service.pid").write_text(str(supervisor.pid))
        try:
            with pytest.raises(NodeError, match=f"process {supervisor.pid} did not end"):
                service_control.restart_if_enabled()
        finally:
            supervisor.kill()
    assert started == []
