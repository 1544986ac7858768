"""What the appliance's helper processes do when the other end fails: nothing a node said is lost, and a process that hangs is replaced."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest

from appliance import lister, pipe
from appliance.fleet.gateway import Appliance, FleetServicer, Stream
from appliance.lister import Lister, News
from appliance.pipe import Frame, Kind
from nodes.protocol import fleet_pb2

PATIENCE_SECONDS = 20.0
HANGING = """
import sys, time, socket
from appliance.pipe import Frame, Kind
ours = socket.socket(fileno=int(sys.argv[1]))
ours.sendall(Frame(Kind.READY).packed())
time.sleep(1e6)
"""


async def reading_ends(refusal: bytes) -> bool:
    """Whether a node's stream ends when its inventory is refused so."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    appliance_reader, appliance_writer = await asyncio.open_connection(sock=theirs)
    gateway = Appliance(reader, writer, {})
    listening = asyncio.create_task(gateway.listen())
    held = asyncio.Event()

    async def said() -> AsyncIterator[fleet_pb2.AgentMessage]:
        yield fleet_pb2.AgentMessage(boot_id="b", sequence=1, inventory=fleet_pb2.Inventory())
        held.set()
        await asyncio.Event().wait()

    stream = Stream(bytes(16), "serial")
    reading = asyncio.create_task(FleetServicer(gateway, {}, 1.0)._read(stream, said()))
    question = await pipe.read_async(appliance_reader)
    assert question is not None and question.kind is Kind.INVENTORY
    appliance_writer.write(Frame(Kind.REFUSED, question.call, body=refusal).packed())
    await asyncio.wait([reading, asyncio.create_task(held.wait())], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_SECONDS)
    ended, refused_only = stream.ended, held.is_set()
    assert ended != refused_only
    for task in (reading, listening):
        task.cancel()
    writer.close()
    appliance_writer.close()
    return ended


def test_an_inventory_that_the_appliance_could_not_take_is_said_again() -> None:
    assert asyncio.run(reading_ends(b"internal It failed here; the appliance's log says why."))


def test_an_inventory_that_is_wrong_does_not_end_the_stream() -> None:
    assert not asyncio.run(reading_ends(b"invalid A GPU has no id."))


def test_a_lister_that_hangs_is_replaced_and_its_caller_answered_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lister, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(lister, "RESTART_SECONDS", 0.0)
    started: list[subprocess.Popen[bytes]] = []
    real_start = pipe.start

    def start(_: object) -> tuple[subprocess.Popen[bytes], socket.socket]:
        process, ours = real_start(lambda end: [sys.executable, "-c", HANGING, str(end)])
        started.append(process)
        return process, ours

    monkeypatch.setattr(pipe, "start", start)

    async def work() -> None:
        asked = Lister(lambda: News([], []))
        running = asyncio.create_task(asked.run())
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(started) < 2 and time.monotonic() < deadline:
            assert await asked.ask({"path": "/"}) is None, "so the appliance answers by itself"
            await asyncio.sleep(0.01)
        assert len(started) >= 2 and started[0].poll() is not None
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(work())
    assert all(process.poll() is not None for process in started)
