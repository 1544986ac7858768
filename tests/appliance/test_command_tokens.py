"""A token that is not valid is told from none, by commands and by REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from rest_framework.test import APIClient

from tests.appliance.commands_in_process import BusbarOf
from tests.appliance.conftest import Cast
from tests.appliance.test_tokens import client_with

pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


@pytest.mark.parametrize("source", ["environment", "stored"])
def test_wrong_token_is_told_from_none(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, source: str, busbar_of: BusbarOf
) -> None:
    if source == "environment":
        monkeypatch.setenv("BUSBAR_TOKEN", "t")
    busbar = busbar_of(client_with("bb_wrong"))
    done = busbar("whoami")
    name, remedy = {
        "environment": ("The token in BUSBAR_TOKEN", "busbar token create"),
        "stored": ("The stored token", "busbar login https://appliance"),
    }[source]
    assert done.status == 5 and f"{name} is not valid" in done.err and remedy in done.err, done


@pytest.mark.parametrize("method", ["get", "post"])
def test_rest_tells_a_wrong_token_from_none(cast: Cast, method: str) -> None:
    def detail(client: Any) -> str:
        return str(getattr(client, method)("/api/v1/allocations").json()["detail"])

    assert "The token is not valid" in detail(client_with("bb_wrong"))
    assert "send a token" in detail(APIClient())
