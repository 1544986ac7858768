"""The place of a role binding in tables of commands."""

from __future__ import annotations

import pytest

from remoting.cli.people_commands import PLACES, with_place


@pytest.mark.parametrize("kind", PLACES)
def test_place_is_shown_with_its_kind(kind: str) -> None:
    binding = dict.fromkeys(PLACES) | {"role": "viewer", kind: "x/0"}
    assert with_place(binding)["place"] == f"{kind}/x/0"


def test_binding_without_a_place_holds_on_the_appliance() -> None:
    assert with_place(dict.fromkeys(PLACES))["place"] == "appliance"
