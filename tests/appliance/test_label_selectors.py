"""Label selectors of the lists of nodes and GPUs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.accounts.models import User
from appliance.api.errors import ApplianceError
from appliance.api.label_selectors import Requirement, parse_selector
from appliance.inventory.models import Gpu, Node
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
LABELS: dict[str, dict[str, str]] = {
    "a": {"rack": "r1", "tier": "gold"},
    "b": {"rack": "r2", "tier": ""},
    "c": {"rack": "r3", "odd key'": "x", "in": "use"},
    "none": {},
}


@pytest.fixture
def labelled(db: None, add_node: Callable[..., Node]) -> None:
    for name, labels in LABELS.items():
        node = add_node(name)
        Node.objects.filter(pk=node.pk).update(labels=labels)
        Gpu.objects.filter(node=node).update(labels=labels)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("rack=r1", "a"),
        ("rack == r1", "a"),
        ("rack!=r1", "b c none"),
        ("rack in (r1, r3)", "a c"),
        ("rack in (r1,r3),tier", "a"),
        ("rack notin (r1, r3)", "b none"),
        ("rack notin (r1, r3), rack", "b"),
        ("tier", "a b"),
        ("!tier", "c none"),
        ("tier=", "b"),
        ("tier in ()", "b"),
        ("tier!=", "a c none"),
        ("odd key'=x", "c"),
        ("in", "c"),
        ("in in (use)", "c"),
        ("rack=r1,rack=r2", ""),
        ("absent", ""),
    ],
)
def test_selector_keeps_the_objects_that_meet_all_requirements(
    cast: Cast, client_of: Clients, labelled: None, selector: str, expected: str
) -> None:
    client = client_of(cast.olga)
    nodes = body(client.get(f"/api/v1/nodes?labels={quote(selector)}"))["items"]
    gpus = body(client.get(f"/api/v1/gpus?labels={quote(selector)}"))["items"]
    assert sorted(node["name"] for node in nodes) == expected.split()
    assert sorted(gpu["node"] for gpu in gpus) == expected.split()


HOSTILE_KEYS = (
    *('a"b', '"', "a'b", "a.b", "a[0]", "$", "$.rack", "#", "0", "10000000000", "-1", "a\\b"),
    *("__proto__", "constructor", "é", "%s", "rack}", "a b", "?", "{rack}"),
)


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_selector_finds_the_key_that_was_stored_and_no_other(
    cast: Cast, client_of: Clients, labelled: None, key: str
) -> None:
    client = client_of(cast.olga)
    node = Node.objects.get(name="c")
    changed = client.patch(f"/api/v1/nodes/{node.pk}", {"labels": {key: "x"}}, format="json")
    assert body(changed)["labels"] == {key: "x"}

    def names(selector: str) -> list[str]:
        response = client.get(f"/api/v1/nodes?labels={quote(selector)}")
        return sorted(row["name"] for row in body(response)["items"])

    others = ["a", "b", "none"]
    assert names(f"{key}=x") == names(key) == ["c"]
    assert names(f"!{key}") == names(f"{key}!=x") == others
    assert names(f"{key}=y") == []


@pytest.mark.parametrize(
    "selector",
    [
        *("", ",", "rack=r1,", "=r1", "rack in", "rack in r1", "rack in (r1", "(r1)", "!", "!a=b"),
        *("a in (b) c", ",".join(["a"] * 33), f"a in ({','.join('b' * 33)})", "a" * 2001, "a\0"),
    ],
)
def test_malformed_selector_is_refused(cast: Cast, client_of: Clients, selector: str) -> None:
    response = client_of(cast.olga).get(f"/api/v1/nodes?labels={quote(selector)}")
    assert response.status_code == 400
    assert body(response)["detail"].startswith("labels: ")


KEYS = st.text("abz09_.-/", min_size=1, max_size=8)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["exists", "absent"]), st.just(())),
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from(["in", "notin"]),
        st.lists(KEYS, min_size=1, max_size=4).map(tuple),
    ),
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(REQUIREMENTS, min_size=1, max_size=6))
def test_written_selector_is_read_as_it_was_meant(requirements: list[Requirement]) -> None:
    forms: dict[str, Callable[[Requirement], str]] = {
        "exists": lambda r: r.key,
        "absent": lambda r: f"!{r.key}",
        "in": lambda r: f"{r.key} in ({','.join(r.values)})",
        "notin": lambda r: f"{r.key} notin ( {' , '.join(r.values)} )",
    }
    text = " , ".join(forms[r.operator](r) for r in requirements)
    assert parse_selector(text) == requirements


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(ApplianceError):
        assert parse_selector(text)


def test_label_key_with_an_equals_sign_is_refused(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    """Written as KEY=VALUE, it would be read as another label."""
    node, olga = add_node(), client_of(cast.olga)
    path = f"/api/v1/nodes/{node.pk}"
    for labels, status in (({"a=b": "c"}, 400), ({"a": "b=c"}, 200)):
        response = olga.patch(path, {"labels": labels}, format="json")
        assert response.status_code == status, body(response)
    node.refresh_from_db()
    assert node.labels == {"a": "b=c"}
