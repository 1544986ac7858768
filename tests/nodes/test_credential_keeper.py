"""The keeper of the agent's credentials goes on after credentials that cannot be used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.fleet.certificates import Authority, load_authority
from nodes import credential_keeper
from nodes.credential_keeper import CredentialKeeper
from nodes.credentials import store_credentials
from tests.nodes.test_credentials import new_credentials

DEADLINE_SECONDS = 60.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return load_authority(tmp_path)


@pytest.fixture
def folder(authority: Authority, tmp_path: Path) -> Path:
    folder = tmp_path / "node"
    store_credentials(folder, new_credentials(authority, "first"))
    return folder


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHECK_SECONDS", "MIN_RETRY_SECONDS"):
        monkeypatch.setattr(credential_keeper, name, 0.0)


async def run_until(keeper: CredentialKeeper, condition: Callable[[], bool]) -> None:
    """Run the keeper until the condition holds. Fails if the keeper ends."""

    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(keeper.run()), asyncio.create_task(wait())]
    done, _ = await asyncio.wait(
        tasks, timeout=DEADLINE_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    for task in tasks:
        task.cancel()
    assert tasks[1] in done, "the keeper ended, or the deadline has passed"


@pytest.mark.parametrize("part", ["agent_pem", "agent_key", "ca_pem"])
def test_damaged_credentials_are_not_taken_up(
    authority: Authority, folder: Path, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = CredentialKeeper(folder)
    second = new_credentials(authority, "second")
    damage: Any = b"damaged" if part == "agent_key" else "damaged"
    store_credentials(folder, replace(second, **{part: damage}))
    asyncio.run(run_until(keeper, lambda: "not loaded, will retry" in caplog.text))
    assert keeper.credentials.identity.node_name == "first"
    store_credentials(folder, second)
    asyncio.run(run_until(keeper, lambda: keeper.credentials.identity.node_name == "second"))


def test_error_of_a_check_does_not_end_the_renewals(
    authority: Authority, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, checks = CredentialKeeper(folder), [0]

    def fail_once() -> bool:
        checks[0] += 1
        if checks[0] == 1:
            raise OSError("on purpose")
        return False

    monkeypatch.setattr(keeper, "_is_due", fail_once)
    asyncio.run(run_until(keeper, lambda: checks[0] > 1))
