"""Generator of anonymous connections and requests, in a process of its own on one core.

Usage: python -m tests.hardening.flood HTTPS_PORT FLEET_PORT DATA_PORT SECONDS

Prints one line of JSON: the number of attempts of each kind. The connections come from
addresses 127.1.0.1 to 127.1.0.32, so that limits by address alone do not stop them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import ssl
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

TASKS_PER_KIND = 16
ADDRESSES = 32
SILENCE_SECONDS = 5.0
ANONYMOUS_REQUEST = b"GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n"
LOGIN = json.dumps({"username": "admin", "password": "wrong password"}).encode()
LOGIN_REQUEST = (
    b"POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(LOGIN)
) + LOGIN
PREAMBLE = b"BUSBAR1\n" + struct.pack("<II", 1, 300)
DATA_OPENINGS = [PREAMBLE + bytes(300), PREAMBLE, b"GET / HTTP/1.1\r\n\r\n"]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Flood:
    """Strangers at the three ports. `attempts` counts what each kind has sent."""

    def __init__(self, https_port: int, fleet_port: int, data_port: int) -> None:
        self.https_port, self.fleet_port, self.data_port = https_port, fleet_port, data_port
        self.context = unverified()
        self.attempts: Counter[str] = Counter()
        self.has_ended = False

    async def connect(self, port: int, *, tls: bool) -> Streams:
        source = f"127.1.0.{random.randint(1, ADDRESSES)}"
        context = self.context if tls else None
        return await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=(source, 0))

    async def request(self, kind: str, content: bytes) -> None:
        """Repeat a request on one connection until the appliance closes it."""
        reader, writer = await self.connect(self.https_port, tls=True)
        with contextlib.closing(writer):
            while not self.has_ended:
                writer.write(content)
                self.attempts[kind] += 1
                if not await reader.read(65536):
                    return

    async def anonymous_requests(self) -> None:
        await self.request("anonymous_requests", ANONYMOUS_REQUEST)

    async def logins(self) -> None:
        await self.request("logins", LOGIN_REQUEST)

    async def connections(self) -> None:
        self.attempts["connections"] += 1
        (await self.connect(self.https_port, tls=True))[1].close()

    async def silent_connections(self) -> None:
        self.attempts["silent_connections"] += 1
        reader, writer = await self.connect(self.https_port, tls=False)
        with contextlib.closing(writer), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_SECONDS):
                await reader.read(1)

    async def fleet_connections(self) -> None:
        self.attempts["fleet_connections"] += 1
        (await self.connect(self.fleet_port, tls=True))[1].close()

    async def data_connections(self) -> None:
        self.attempts["data_connections"] += 1
        reader, writer = await self.connect(self.data_port, tls=False)
        with contextlib.closing(writer):
            writer.write(
                random.choice([PREAMBLE + bytes(300), PREAMBLE, b"GET / HTTP/1.1\r\n\r\n"])
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SILENCE_SECONDS):
                    await reader.read(1)

    async def repeat(self, attempt: Callable[[], Awaitable[None]]) -> None:
        while not self.has_ended:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await attempt()
            await asyncio.sleep(0)

    async def run(self, seconds: float) -> None:
        kinds = (
            self.anonymous_requests,
            self.logins,
            self.connections,
            self.silent_connections,
            self.fleet_connections,
            self.data_connections,
        )
        tasks = [
            asyncio.create_task(self.repeat(kind)) for kind in kinds for _ in range(TASKS_PER_KIND)
        ]
        await asyncio.sleep(seconds)
        self.has_ended = True  # a task may miss its cancellation while a connection ends
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    flood = Flood(*map(int, sys.argv[1:4]))
    asyncio.run(flood.run(float(sys.argv[4])))
    print(json.dumps(flood.attempts))


if __name__ == "__main__":
    main()
