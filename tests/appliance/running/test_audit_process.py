"""Audit of a running appliance: records are sealed, and both processes count refusals."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from collections import Counter
from typing import Any

from deploy.supervisor import wait_for
from tests.appliance.appliance_process import ApplianceProcess
from tests.tokens import create_token


def send(appliance: ApplianceProcess, path: str, token: str = "", content: Any = None) -> Any:
    """Send a request and return the body of the response, None if it was refused."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"{appliance.url}/api/v1/{path}", data, headers)
    with (
        contextlib.suppress(urllib.error.HTTPError),
        urllib.request.urlopen(request, timeout=60, context=appliance.context) as response,
    ):
        return json.load(response)
    return None


def refused(appliance: ApplianceProcess, token: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for i in send(appliance, "audit?outcome=refused", token)["items"]:
        counts[f"{i['actor']} {i['code']}"] += i["count"]
    return counts


def test_running_appliance_seals_changes_and_counts_refusals(
    appliance: ApplianceProcess, token: str
) -> None:
    viewer = create_token(appliance.data, "vera", "viewer")
    before = refused(appliance, token)
    assert send(appliance, "pools", token, {"name": "lab"})
    assert send(appliance, "pools", viewer, {"name": "other"}) is None  # in the controller
    assert send(appliance, "users", viewer) is None  # in the HTTP server
    assert send(appliance, "login", "", {"username": "mallory", "password": "x"}) is None

    def added() -> Counter[str]:
        return refused(appliance, token) - before

    expected = {"vera denied": 2, "mallory unauthenticated": 1}
    wait_for("counts of refusals", lambda: added().total() == 3, appliance.log)
    assert added() == expected

    def pool_is_sealed() -> bool:
        (record,) = send(appliance, "audit?action=pools_create&outcome=succeeded", token)["items"]
        return record["sequence"] is not None and record["actor"] == "local"

    wait_for("the seal", pool_is_sealed, appliance.log)
    found = send(appliance, "audit/verification", token)
    assert found["problem"] is None and found["sequence"] > 0
