"""Commands show the size that an allocation has, also if it is in proportion to the other part."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings

from remoting.cli.allocation_commands import progress
from remoting.cli.allocation_sizes import with_size
from tests.appliance.commands_in_process import Busbar
from tests.appliance.suspending_client import Client, report

pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


def request(alice: Client, **size: Any) -> str:
    made = alice.client.post("/api/v1/allocations", size, format="json")
    assert made.status_code == 202, made.content
    return str(made.json()["id"])


@pytest.mark.parametrize(
    ("size", "percent", "memory"),
    [
        ({"percent": 25}, "25", "in proportion, 2.00 GiB"),
        ({"memory_bytes": 2 << 30}, "in proportion, 25", "2.00 GiB"),
    ],
)
def test_size_in_proportion_shows_what_it_comes_to(
    alice: Client, busbar_of_alice: Busbar, size: dict[str, int], percent: str, memory: str
) -> None:
    pk = request(alice, **size)
    sheet = busbar_of_alice("allocation", "show", pk).out
    for label, text in (("Percent", percent), ("Memory", memory)):
        assert re.search(rf"^  {label} +{text} *$", sheet, re.MULTILINE), sheet
    assert percent in busbar_of_alice("allocation", "list").out
    wide = busbar_of_alice("allocation", "list", "-o", "wide").out
    assert " 0 B" not in wide, wide


@pytest.mark.parametrize("kind", ["project", "pool"])
def test_allocation_by_memory_has_no_percent_of_0_beside_other_objects(
    alice: Client, busbar_of_alice: Busbar, kind: str
) -> None:
    request(alice, name="by-memory", memory_bytes=2 << 30)
    report(alice.node)
    text = busbar_of_alice(kind, "show", "default").out
    assert re.search(r"by-memory .* in proportion, 25 ", text), text


def test_explanation_shows_its_time_as_other_commands_do(
    alice: Client, busbar_of_alice: Busbar
) -> None:
    request(alice, percent=100, hold="lifetime", lifetime_seconds=3600)
    pk = request(alice, percent=100)
    text = busbar_of_alice("explain", pk).out
    assert re.search(r"^Expected to start: [0-9-]{10} [0-9:]{8} UTC$", text, re.MULTILINE), text


@pytest.mark.parametrize("command", [["explain"], ["allocation", "show"]])
def test_alternative_has_memory_in_proportion(
    alice: Client, busbar_of_alice: Busbar, command: list[str]
) -> None:
    request(alice, percent=60)
    text = busbar_of_alice(*command, request(alice, percent=80)).out
    assert "Alternatives" in text and "in proportion" in text and "0 B" not in text, text


def test_candidates_of_a_name_are_told_apart_by_their_sizes(
    alice: Client, busbar_of_alice: Busbar
) -> None:
    placed = [{"percent": 30}, {"memory_bytes": 1 << 30, "percent": 5}]
    queued = [{"percent": 80}, {"memory_bytes": 5 << 30}]
    for size in placed + queued:
        request(alice, name="train", **size)
    done = busbar_of_alice("allocation", "show", "train")
    for share in ("30 % of node/0", "5 % of node/0", "80 % of 1 GPU", "5.00 GiB of 1 GPU"):
        assert re.search(rf"  [0-9-]{{10}} [0-9:]{{8}}  {share}$", done.err, re.MULTILINE), done


def test_size_before_a_resize_is_not_that_of_the_request() -> None:
    granted = [{"compute_percent": 25, "memory_bytes": 2 << 30}]
    row = {"percent": 50, "memory_bytes": 0, "partitions": granted, "resize": {"state": "queued"}}
    assert with_size(row)["memory"] == "in proportion"


def test_state_of_an_older_appliance_that_serializes_no_resize() -> None:
    assert progress({"state": "active"}) == "active"
    assert progress({"state": "active", "resize": {"state": "queued"}}) == "active, queued"
