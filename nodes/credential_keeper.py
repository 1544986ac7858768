"""Keeps the node's credentials valid while the agent runs.

It renews them in time, and takes up credentials that another process put in force, such as a new
enrolment.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from pathlib import Path

from nodes.channel import with_jitter
from nodes.credentials import Credentials, load_credentials, version_in_force
from nodes.errors import NodeError
from nodes.renewal import renew

log = logging.getLogger("agent")

CHECK_SECONDS = 1.0
RETRY_SECONDS = 60.0
"""Time between attempts to renew; MIN_RETRY_SECONDS once the certificate has expired."""
MIN_RETRY_SECONDS = 5.0
SPREAD_SECONDS = 10.0
"""Renewals because of a rotation of the CA begin within this time."""


class CredentialKeeper:
    """The credentials of the running agent.

    `fleet_address` and `appliance_url` replace the addresses of the enrolment if not empty.
    """

    def __init__(self, folder: Path, fleet_address: str = "", appliance_url: str = "") -> None:
        self._folder = folder
        self._fleet_address, self._appliance_url = fleet_address, appliance_url
        self._changed = asyncio.Condition()
        self._authorities: list[bytes] = []
        self._next_attempt = 0.0
        self._version = version_in_force(folder)
        loaded = load_credentials(folder)
        if loaded is None:
            raise NodeError(
                f"No identity in {folder}; run `busbar-agent enrol` with a token first."
            )
        self.credentials: Credentials = loaded

    @property
    def fleet_address(self) -> str:
        return self._fleet_address or self.credentials.identity.fleet_address

    async def run(self) -> None:
        """Renew and reload the credentials until cancelled."""
        while True:
            try:
                await self._check()
            except Exception:
                log.exception("agent: credentials not checked, will retry")
                await asyncio.sleep(MIN_RETRY_SECONDS)
            await asyncio.sleep(CHECK_SECONDS)

    async def _check(self) -> None:
        """Take up other credentials, and renew those in force if it is time."""
        loop = asyncio.get_running_loop()
        await self._reload()
        if self._is_due() and loop.time() >= self._next_attempt and not await self._renew():
            expired = self.credentials.are_expired()
            self._next_attempt = loop.time() + with_jitter(
                MIN_RETRY_SECONDS if expired else RETRY_SECONDS
            )

    def expect_authorities(self, authorities: Sequence[bytes]) -> None:
        """Renew the credentials soon if these are not the CAs that they name.

        `authorities` are the SHA-256 digests that the appliance sent; the first one issues. The
        renewals of many nodes are spread over some seconds.
        """
        if list(authorities) == self._authorities:
            return
        self._authorities = list(authorities)
        delay = random.uniform(0, SPREAD_SECONDS)  # noqa: S311 - not used for security
        self._next_attempt = asyncio.get_running_loop().time() + delay

    def _is_due(self) -> bool:
        differ = self._authorities and self._authorities != self.credentials.authorities
        return bool(differ) or self.credentials.renewal_is_due()

    async def _renew(self) -> bool:
        """Renew the credentials. Return whether it succeeded."""
        try:
            await asyncio.to_thread(renew, self._folder, self._appliance_url)
        except Exception as error:
            end = self.credentials.agent_certificate.not_valid_after_utc
            log.warning(
                "agent: certificates not renewed, will retry (valid until %s): %s",
                end.strftime("%Y-%m-%d %H:%M UTC"),
                error,
            )
            return False
        log.info("agent: certificates renewed")
        await self._reload()
        return True

    async def _reload(self) -> None:
        """Load the credentials again if they were replaced."""
        version = version_in_force(self._folder)
        if version == self._version:
            return
        try:
            loaded = load_credentials(self._folder)
        except NodeError as error:
            log.warning("agent: credentials not loaded, will retry (%s)", error)
            return
        if loaded is None:
            return
        async with self._changed:
            self._version, self.credentials = version, loaded
            self._changed.notify_all()

    async def wait_until_valid(self) -> None:
        """Wait until the certificate has not expired."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.credentials.are_expired())

    async def wait_until_replaced(self, credentials: Credentials) -> None:
        """Wait until these credentials are no longer in force."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.credentials is not credentials)
