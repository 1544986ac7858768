"""Clients of the kill rounds, and their records."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import ssl
from dataclasses import dataclass
from typing import Any

from tests.load.http import Client, HttpError

SIZES = (30, 40, 60, 100)
MEMORY_SIZES = tuple(n << 30 for n in (4, 12, 24, 40))
MODES = ("shared", "capped", "guaranteed", "exclusive")
WHOLE = {"percent": 100, "memory_bytes": 0, "compute_mode": "exclusive"}
MOST_RESIZES = 3
"""Of an allocation, and none of half of them: memory over a size refuses a suspension."""
WAIT_SECONDS = 1
SUSPENDED_SHARE = 0.5
"""Share of the active allocations that their clients suspend."""


@dataclass
class Entry:
    """A client's record of one request. Everything but the size is from responses."""

    percent: int
    id: str = ""
    released: bool = False
    wanted: dict[str, Any] | None = None
    """Requested size and mode; None after a refusal, which a lost response may have preceded."""
    resizes: int = 0
    """Accepted resizes."""
    asked: str = ""
    """The last accepted request about its suspension: suspend or resume."""


class Clients:
    """Users that allocate and release in a loop while `running` is set, retrying on failures."""

    def __init__(self, url: str, users: dict[str, Any], ca: str, rng: random.Random) -> None:
        self.client = Client(url, ssl.create_default_context(cadata=ca))
        self.users, self.rng = users, rng
        self.journal: dict[str, Entry] = {}
        """Entries by idempotency key."""
        self.running = asyncio.Event()
        self.in_flight = 0
        self.busy = 0

    async def request_until_response(
        self, method: str, path: str, headers: dict[str, str], **more: Any
    ) -> Any:
        """Repeat a request until there is a response. Raises HttpError for a 4xx status."""
        while True:
            self.in_flight += 1
            try:
                return await self.client.request(method, path, headers=headers, **more)
            except HttpError as error:
                if not str(error).startswith("5"):
                    raise
            except (OSError, TimeoutError, EOFError, ssl.SSLError):
                pass
            finally:
                self.in_flight -= 1
            await asyncio.sleep(0.1)

    async def run_user(self, n: int) -> None:
        authorization = {"Authorization": f"Bearer {self.users['tokens'][n]}"}
        while True:
            await self.running.wait()
            self.busy += 1
            entry = await self.allocate(n, authorization)
            await self.pause()
            if entry.asked:
                await self.change_suspension("resume", entry, authorization)
                await self.pause()
            await self.request_until_response(
                "DELETE", f"/api/v1/allocations/{entry.id}", authorization
            )
            entry.released = True
            self.busy -= 1

    async def pause(self) -> None:
        """Wait a moment, and until there is load again. Records are compared meanwhile."""
        self.busy -= 1
        await asyncio.sleep(self.rng.random() * 0.3)
        await self.running.wait()
        self.busy += 1

    async def allocate(self, n: int, authorization: dict[str, str]) -> Entry:
        """Allocate; resize or suspend the allocation if it is active."""
        key, entry = secrets.token_hex(16), Entry(self.rng.choice(SIZES))
        entry.wanted = {"percent": entry.percent, "memory_bytes": 0, "compute_mode": "shared"}
        self.journal[key] = entry
        body = {"percent": entry.percent, "project": self.users["projects"][n]}
        headers = authorization | {"Idempotency-Key": key}
        allocation = await self.request_until_response(
            "POST", "/api/v1/allocations", headers, query={"wait": WAIT_SECONDS}, body=body
        )
        entry.id = allocation["id"]
        if allocation["state"] == "active":
            for _ in range(self.rng.choice((0, self.rng.randint(1, MOST_RESIZES)))):
                await self.resize(entry, authorization)
            if self.rng.random() < SUSPENDED_SHARE:
                await self.change_suspension("suspend", entry, authorization)
        return entry

    def choose_change(self, present: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a request for another size, another mode, or both."""
        change: dict[str, Any] = {}
        if self.rng.random() < 0.4 or present["compute_mode"] == "exclusive":
            change["compute_mode"] = self.rng.choice(MODES)
        if self.rng.random() < 0.6:
            change["percent"] = self.rng.choice(SIZES)
        if self.rng.random() < 0.6:
            change["memory_bytes"] = self.rng.choice(MEMORY_SIZES)
        return change

    async def change_suspension(
        self, action: str, entry: Entry, authorization: dict[str, str]
    ) -> None:
        """Suspend or resume an allocation. Refusals are conflicts: it shrinks or runs already."""
        headers = authorization | {"Idempotency-Key": secrets.token_hex(16)}
        path = f"/api/v1/allocations/{entry.id}/{action}"
        try:
            await self.request_until_response("POST", path, headers, query={"wait": WAIT_SECONDS})
        except HttpError as error:
            if not str(error).startswith("409"):
                raise
        else:
            entry.asked = action

    async def resize(self, entry: Entry, headers: dict[str, str]) -> None:
        """Change size and mode of an active allocation. It grows, waits to grow, or shrinks."""
        if entry.wanted is None:
            return
        change, entry.wanted = self.choose_change(entry.wanted), None
        path = f"/api/v1/allocations/{entry.id}"
        with contextlib.suppress(HttpError):  # it is too large for the GPU
            row = await self.request_until_response("PATCH", path, headers, body=change)
            entry.wanted = {name: row[name] for name in WHOLE}
            entry.resizes += 1
