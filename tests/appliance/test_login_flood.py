"""Wrong logins in large numbers: running work and owners of accounts are not affected."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from tests.appliance.appliance_process import PASSWORD, STRANGER, ApplianceProcess, started
from tests.load.http import Client, HttpError
from tests.tokens import create_token

WRONG_LOGINS = 290
HOLD_SECONDS, WATCHED_SECONDS, HEARTBEAT_SECONDS = 4.0, 6.0, 0.25


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    """Appliance whose administrator has PASSWORD and has signed in from 127.0.0.1."""
    folder = tmp_path_factory.mktemp("appliance")
    with started(folder, BUSBAR_HOLD_SECONDS=str(HOLD_SECONDS)) as running:
        one_time = (running.data / "initial-admin-password").read_text().strip()
        body = {"username": "admin", "password": one_time, "new_password": PASSWORD}
        asyncio.run(running.client().request("POST", "/api/v1/login", body=body, headers={}))
        yield running


@pytest.fixture(scope="module")
def token(appliance: ApplianceProcess) -> str:
    return create_token(appliance.data)


async def log_in(client: Client, username: str, password: str) -> int:
    """Return the status of a login; 0 without a response."""
    body = {"username": username, "password": password}
    try:
        await client.request("POST", "/api/v1/login", body=body, headers={})
    except HttpError as error:
        return int(str(error)[:3])
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return 0
    return 200


async def fail_logins(client: Client, username: str, count: int) -> Counter[int]:
    """Send wrong logins at once and return the number of responses by status."""
    attempts = (log_in(client, username, f"wrong {n}") for n in range(count))
    return Counter(await asyncio.gather(*attempts))


async def renew_lease(client: Client, headers: dict[str, str], path: str) -> list[float]:
    """Send heartbeats for WATCHED_SECONDS and return their latencies in seconds."""
    latencies, end = [], time.monotonic() + WATCHED_SECONDS
    while (begun := time.monotonic()) < end:
        await client.request("POST", f"{path}/heartbeat", headers=headers)
        latencies.append(time.monotonic() - begun)
        await asyncio.sleep(HEARTBEAT_SECONDS)
    return latencies


# This test is the first one: the next ones fail at logins from the address of the owner.
def test_owner_signs_in_while_a_stranger_fails_at_the_same_account(
    appliance: ApplianceProcess,
) -> None:
    async def run() -> int:
        flood = asyncio.create_task(
            fail_logins(appliance.client(STRANGER, 120), "admin", WRONG_LOGINS)
        )
        await asyncio.sleep(0.5)
        status = await log_in(appliance.client(timeout_seconds=120), "admin", PASSWORD)
        flood.cancel()
        return status

    assert asyncio.run(run()) == 200


@pytest.mark.long
@pytest.mark.parametrize("source", ["127.0.0.1", STRANGER])
def test_wrong_logins_delay_no_heartbeat_and_release_no_allocation(
    appliance: ApplianceProcess, token: str, source: str
) -> None:
    headers = {"Authorization": f"Bearer {token}"}

    async def run() -> tuple[list[float], str]:
        client = appliance.client(timeout_seconds=HOLD_SECONDS)
        allocation = await client.request(
            "POST",
            "/api/v1/allocations",
            body={"percent": 10, "allow_pending": True},
            headers=headers,
        )
        path = f"/api/v1/allocations/{allocation['id']}"
        flood = asyncio.create_task(
            fail_logins(appliance.client(source, 60), "admin", WRONG_LOGINS)
        )
        latencies = await renew_lease(client, headers, path)
        state = (await client.request("GET", path, headers=headers))["state"]
        flood.cancel()
        return latencies, state

    latencies, state = asyncio.run(run())
    assert state == "queued" and max(latencies) < 2, latencies


def log_in_with_device(appliance: ApplianceProcess, device: httpx.Cookies | None) -> httpx.Response:
    body = {"username": "admin", "password": PASSWORD}
    with httpx.Client(verify=appliance.context, cookies=device, timeout=120) as client:
        return client.post(f"{appliance.url}/api/v1/login", json=body)


def test_client_with_device_cookie_signs_in_while_its_own_address_fails(
    appliance: ApplianceProcess,
) -> None:
    async def run() -> int:
        device = (await asyncio.to_thread(log_in_with_device, appliance, None)).cookies
        client = appliance.client(timeout_seconds=120)
        flood = asyncio.create_task(fail_logins(client, "admin", WRONG_LOGINS))
        await asyncio.sleep(0.5)
        response = await asyncio.to_thread(log_in_with_device, appliance, device)
        flood.cancel()
        return response.status_code

    assert asyncio.run(run()) == 200
