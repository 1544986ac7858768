"""Commands that suspend sessions by hand, and the launcher's answers."""

from __future__ import annotations

import argparse
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodes import launcher_layouts as layouts
from nodes.errors import NodeError
from nodes.installation import build_parser
from nodes.launcher_layouts import Kind, Suspension
from nodes.suspension_commands import run_suspension_command, wait_seconds
from nodes.suspensions import decode_suspensions

SESSION = uuid.UUID(int=5)
MIB = 1 << 20


@contextmanager
def launcher(path: Path, kind: Kind, body: bytes = b"") -> Iterator[list[tuple[int, bytes]]]:
    """Answer one request with a message; yield the requests that came."""
    requests: list[tuple[int, bytes]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                head = layouts.Header.unpack(connection.recv(layouts.Header.SIZE))
                content = connection.recv(head.body_bytes) if head.body_bytes else b""
                requests.append((head.kind, content))
                connection.sendall(layouts.Header(len(body), kind).pack() + body)

        thread = threading.Thread(target=serve)
        thread.start()
        yield requests
        thread.join()


def run(path: Path, *arguments: str) -> None:
    run_suspension_command(build_parser().parse_args([*arguments, "--launcher-socket", str(path)]))


def test_suspend_sends_session_and_wait(tmp_path: Path) -> None:
    with launcher(tmp_path / "s", Kind.OK) as requests:
        run(tmp_path / "s", "suspend", str(SESSION), "--wait", "2.5")
    assert requests == [(Kind.SUSPEND, layouts.SuspendSession(SESSION.bytes, 2500).pack())]


def test_refusal_shows_the_reason_of_the_launcher(tmp_path: Path) -> None:
    reason = b"it is not suspended".ljust(104, b"\0")
    with (
        launcher(tmp_path / "s", Kind.REFUSED, reason),
        pytest.raises(NodeError, match=r"^resume failed: it is not suspended$"),
    ):
        run(tmp_path / "s", "resume", str(SESSION))


def test_list_shows_states_and_host_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = layouts.SuspensionRecord(SESSION.bytes, 3 * MIB, Suspension.WAITING, 0, b"")
    body = layouts.SuspensionList(8 * MIB, 3 * MIB, 1).pack() + record.pack()
    with launcher(tmp_path / "s", Kind.SUSPENSION_LIST, body):
        run(tmp_path / "s", "suspensions")
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["host memory: 3 of 8 MiB", f"{SESSION}  waiting     3 MiB"]


def test_reason_of_a_session_does_not_act_on_the_terminal() -> None:
    reason = b"a\x1b[2J\nb\xff".ljust(64, b"\0")
    record = layouts.SuspensionRecord(SESSION.bytes, 0, Suspension.NONE, 0, reason)
    body = layouts.SuspensionList(0, 0, 1).pack() + record.pack()
    (shown,) = decode_suspensions(body).sessions
    assert shown.reason.isprintable() and shown.reason.startswith("a?[2J?b")


@pytest.mark.parametrize(
    "body", [b"", layouts.SuspensionList(0, 0, 1).pack()], ids=["empty", "record missing"]
)
def test_list_of_a_wrong_length_is_rejected(body: bytes) -> None:
    with pytest.raises(ValueError, match="bytes"):
        decode_suspensions(body)


@pytest.mark.parametrize("text", ["-1", "601", "soon", "nan"])
def test_wait_outside_of_its_range_is_rejected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        wait_seconds(text)
