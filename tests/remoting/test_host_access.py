"""The agent detects whether kernels can address the host memory of their process."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path

import pytest

from deploy.supervisor import SOFTGPU
from nodes.host_access import HOST_MEMORY, host_memory_is_closed, with_host_memory
from nodes.launcher_control import SessionList
from nodes.messages import encode_report
from tests.nodes.test_memory_watch import SESSION
from tests.remoting.node import NULL_DRIVER


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the agent of this machine have a software GPU."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(SOFTGPU))
    monkeypatch.setenv("BUSBAR_SOFTGPU_DIR", str(tmp_path / "gpu"))


def test_software_gpu_closes_host_memory() -> None:
    assert host_memory_is_closed()


def test_gpu_whose_kernels_address_host_memory_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(NULL_DRIVER.parent))
    assert host_memory_is_closed()
    monkeypatch.setenv("NULL_DRIVER_READS_HOST_MEMORY", "1")
    assert host_memory_is_closed() is False


def test_gpus_that_the_agent_hides_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert host_memory_is_closed()


def test_driver_without_an_answer_leaves_it_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert host_memory_is_closed() is None


@pytest.mark.parametrize("closed", [True, False])
def test_sessions_and_node_say_whether_host_memory_is_closed(closed: bool) -> None:
    session = dataclasses.replace(
        SESSION, session_id=uuid.uuid4(), isolation={"seccomp": True}, enforcement="turns"
    )
    listed = with_host_memory(SessionList(1, 8445, (session,), ("seccomp",)), closed)
    assert listed.isolation == (("seccomp", HOST_MEMORY) if closed else ("seccomp",))
    (sent,) = encode_report(listed).sessions
    reason = "kernels can address the memory of the session server"
    assert sent.isolation[HOST_MEMORY] == ("enforced" if closed else reason)
