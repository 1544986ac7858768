"""Messages of a machine that is enrolled over SSH: wrong or endless output fails the enrolment."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appliance.api.errors import ApplianceError
from appliance.fleet import ssh_enrolment
from appliance.fleet.installer_messages import parse_checks, parse_python, parse_step
from appliance.fleet.ssh import MessageReader

CHECK = {"check": "driver", "state": "pass", "found": "it", "fix": ""}


@pytest.fixture
def machine() -> Iterator[tuple[socket.socket, MessageReader]]:
    theirs, ours = socket.socketpair()
    with theirs, ours:
        yield theirs, MessageReader(ours)  # type: ignore[arg-type]  # it receives as a channel does


def message(**content: Any) -> bytes:
    return b"BUSBAR " + json.dumps(content).encode() + b"\n"


@pytest.mark.parametrize(
    "output", [b"noise\n", b"BUSBAR []\n", b"BUSBAR " + b"[" * 9000 + b"\n", b"x" * 4096]
)
def test_endless_output_holds_no_thread(
    machine: tuple[socket.socket, MessageReader], output: bytes
) -> None:
    theirs, reader = machine
    stop = threading.Event()

    def send() -> None:
        end = time.monotonic() + 120
        with contextlib.suppress(OSError):
            while not stop.is_set() and time.monotonic() < end:
                theirs.sendall(output)
            theirs.shutdown(socket.SHUT_WR)  # the reader ends, without TimeoutError

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(TimeoutError):
            reader.next(0.3)
    finally:
        stop.set()
        reader.channel.shutdown(socket.SHUT_RDWR)
        sender.join()


def test_message_is_found_between_other_output(
    machine: tuple[socket.socket, MessageReader],
) -> None:
    machine[0].sendall(b"Welcome!\nBUSBAR 5\n" + message(step="Testing.", percent=45))
    assert machine[1].next(60) == {"step": "Testing.", "percent": 45}


@pytest.mark.parametrize(
    ("parse", "content"),
    [
        (parse_step, {"step": "x"}),
        (parse_step, {"step": "x", "percent": 1 << 40}),
        (parse_step, {"step": "x", "percent": -1}),
        (parse_step, {"step": ["x"], "percent": 5}),
        (parse_checks, {"table": {}}),
        (parse_checks, {"table": ["x"]}),
        (parse_checks, {"table": [CHECK | {"state": 5}]}),
        (parse_checks, {"table": [CHECK] * 101}),
        (parse_python, {}),
        (parse_python, {"python": 5}),
        (parse_python, {"python": "/bin/python3", "version": []}),
    ],
)
def test_invalid_message_is_a_failed_installation(
    parse: Callable[[dict[str, Any]], Any], content: dict[str, Any]
) -> None:
    with pytest.raises(ApplianceError) as failed:
        parse(content)
    assert failed.value.code == "installation_failed"


def test_ordinary_messages_are_read() -> None:
    assert parse_step({"step": "Wait.", "percent": 85, "waiting": True}) == (85, "Wait.", True)
    assert parse_checks({"table": [CHECK]}) == [CHECK]
    assert parse_python({"python": "/p", "version": "3.11", "uid": 0}) == ("/p", "3.11", True)
    assert parse_python({"python": ""}) == ("", "", False)


def test_endless_steps_end_the_enrolment(machine: tuple[socket.socket, MessageReader]) -> None:
    """Each step is a row in the log of the task."""
    machine[0].sendall(message(step="again", percent=50) * 1000)
    steps: list[str] = []

    class Progress:
        def report(self, percent: int, text: str) -> None:
            steps.append(text)

    with pytest.raises(ApplianceError):
        ssh_enrolment.follow_progress(machine[1], Progress())  # type: ignore[arg-type]
    assert len(steps) <= 200
