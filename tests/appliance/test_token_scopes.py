"""Scopes of API tokens: no door lets a scoped token do more than its scopes and its user permit."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from appliance.accounts.models import ApiToken, User
from appliance.accounts.privileges import ADMINISTER, PRIVILEGES, VIEW
from appliance.accounts.services import token_create
from appliance.accounts.token_limits import SCOPE_NAMES
from appliance.activity.consumers import authenticate_all, identify
from tests.appliance.conftest import Cast, body
from tests.appliance.test_access_matrix import TABLE, privilege_of

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db
UNGUARDED = ("public", "account.self")
SAMPLE_VALUES = {"kind": "ticket", "python": "3.11"}
"""Values of the placeholders in paths that are no ids."""


def program(client_of: Clients, user: User, *scopes: str) -> Any:
    """Return a client with a token of the user that has these scopes; all if there are none."""
    client = client_of(None)
    _, text = token_create(user=user, name="program", scopes=scopes)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def post(client: Any, path: str, content: object = None, **headers: str) -> Any:
    return client.post(f"/api/v1/{path}", content, format="json", headers=headers)


def privileges_of(client: Any) -> set[str]:
    return set(body(client.get("/api/v1/me"))["privileges"])


@pytest.mark.parametrize(
    "row", [r for r in TABLE if privilege_of(r) not in UNGUARDED], ids=lambda row: str(row)
)
def test_operation_is_denied_without_its_privilege_in_the_scopes(
    cast: Cast, client_of: Clients, row: Any
) -> None:
    client = program(client_of, cast.admin, *ADMINISTER - {privilege_of(row)})
    path = re.sub(r"{(\w+)}", lambda m: SAMPLE_VALUES.get(m[1], str(uuid.uuid4())), row.path)
    for query in ("", "?dry_run=true") if row.method != "GET" else ("",):
        response = client.generic(row.method, f"/api/v1/{path}{query}")
        assert (response.status_code, body(response)["code"]) == (403, "denied")
    operation = {"method": row.method, "path": path}
    (result,) = body(post(client, "bulk", {"operations": [operation]}))["results"]
    assert (result["status"], result["body"]["code"]) == (403, "denied")


def test_scopes_intersect_with_the_roles_of_the_owner(cast: Cast, client_of: Clients) -> None:
    wanted = {"allocations.view", "accounts.manage"}
    assert privileges_of(program(client_of, cast.admin, *wanted)) == wanted
    assert privileges_of(program(client_of, cast.alice, *wanted)) == {"allocations.view"}
    assert privileges_of(program(client_of, cast.alice)) == PRIVILEGES["user"]


def test_role_stands_for_its_privileges_of_the_time(cast: Cast, client_of: Clients) -> None:
    wanted = {"name": "auditor", "scopes": ["viewer", "pools.manage"]}
    made = body(post(client_of(cast.admin), "tokens", wanted))
    assert made["scopes"] == sorted(VIEW | {"pools.manage"})
    refused = post(client_of(cast.admin), "tokens", {"name": "x", "scopes": ["pools.managed"]})
    assert refused.status_code == 400 and "pools.manage" in SCOPE_NAMES


def test_tickets_need_their_scope(cast: Cast, client_of: Clients) -> None:
    alice = client_of(cast.alice)
    made = body(post(alice, "allocations", {"percent": 10, "allow_pending": True}))
    tickets = f"allocations/{made['id']}/tickets"
    key = {"client_public_key": "A" * 43 + "="}
    reader = program(client_of, cast.alice, "allocations.view", "allocations.create")
    assert reader.get(f"/api/v1/allocations/{made['id']}").status_code == 200
    assert post(reader, tickets, key).status_code == 403
    assert post(alice, tickets, key).status_code == 409  # queued: permitted, not yet possible


@pytest.mark.parametrize("path", ["allocations", "bulk"])
def test_stored_response_is_not_replayed_for_other_scopes(
    cast: Cast, client_of: Clients, path: str
) -> None:
    wanted = {"percent": 10, "allow_pending": True}
    operation = {"method": "POST", "path": "allocations", "body": wanted}
    content = wanted if path == "allocations" else {"operations": [operation], "atomic": True}
    first = post(client_of(cast.alice), path, content, **{"Idempotency-Key": "k"})
    assert first.status_code < 300
    creator = program(client_of, cast.alice, "allocations.create")
    again = post(creator, path, content, **{"Idempotency-Key": "k"})
    assert (again.status_code, body(again)["code"]) == (422, "idempotency_mismatch")


def test_sockets_and_streams_see_only_what_the_scopes_permit(cast: Cast) -> None:
    _, text = token_create(user=cast.vera, name="x", scopes=["inventory.view"])
    found = identify(text, "192.0.2.1")
    assert found is not None and found[2].everywhere == {"inventory.view"}
    full = token_create(user=cast.vera, name="x")[1]
    checked = authenticate_all([text, full])
    assert checked[text] == found[2], "the periodic check would close the socket"
    unlimited = checked[full]
    assert unlimited is not None and unlimited.everywhere == VIEW


def test_scoped_token_creates_none_with_more_scopes_networks_or_life(
    cast: Cast, client_of: Clients
) -> None:
    mine = {
        "name": "x",
        "scopes": ["user"],
        "networks": ["127.0.0.0/8", "2001:db8::/32"],
        "lifetime_seconds": 3600,
    }
    made = body(post(client_of(cast.admin), "tokens", mine))
    limited = client_of(None)
    limited.credentials(HTTP_AUTHORIZATION=f"Bearer {made['token']}")
    exceeding: list[dict[str, Any]] = [
        {"scopes": ["pools.manage"]},
        {"scopes": []},
        {"networks": []},
        {"networks": ["0.0.0.0/0"]},
        {"networks": ["127.0.0.1", "2001:db9::/48"]},
        {"lifetime_seconds": 7200},
    ]
    for more in exceeding:
        refused = post(limited, "tokens", {"name": "y"} | more)
        assert refused.status_code == 403 and next(iter(more)) in body(refused)["detail"], more
    inherited = body(post(limited, "tokens", {"name": "y"}))
    for column in ("scopes", "networks", "expires_at"):
        assert inherited[column] == made[column], column
    less = {"scopes": ["viewer"], "networks": ["127.0.0.1"], "lifetime_seconds": 60}
    assert post(limited, "tokens", {"name": "y"} | less).status_code == 201


def test_scoped_token_of_an_account_manager_makes_no_stronger_service_token(
    cast: Cast, client_of: Clients
) -> None:
    admin = client_of(cast.admin)
    post(admin, "users", {"username": "ci", "is_service": True})
    manager = program(client_of, cast.admin, "accounts.manage", "members.manage")
    assert post(manager, "role-bindings", {"user": "ci", "role": "user"}).status_code == 403
    made = body(post(manager, "tokens", {"name": "x", "user": "ci"}))
    assert made["scopes"] == ["accounts.manage", "members.manage"]
    refused = post(manager, "tokens", {"name": "x", "user": "ci", "scopes": ["user"]})
    assert refused.status_code == 403
    post(admin, "role-bindings", {"user": "ci", "role": "user"})
    assert post(manager, "tokens", {"name": "x", "user": "ci"}).status_code == 403


def test_token_without_the_scope_for_the_account_sees_and_revokes_itself_only(
    cast: Cast, client_of: Clients
) -> None:
    other, _ = token_create(user=cast.alice, name="other")
    reader = program(client_of, cast.alice, "allocations.view")
    (own,) = body(reader.get("/api/v1/tokens"))["items"]
    assert own["name"] == "program"
    assert reader.delete(f"/api/v1/tokens/{other.pk}").status_code == 404
    assert post(reader, "tokens", {"name": "x"}).status_code == 403
    assert reader.delete(f"/api/v1/tokens/{own['id']}").status_code == 204
    manager = program(client_of, cast.admin, "accounts.manage")
    strong, _ = token_create(user=cast.admin, name="strong")
    assert manager.delete(f"/api/v1/tokens/{strong.pk}").status_code == 403
    assert ApiToken.objects.filter(pk__in=[other.pk, strong.pk]).count() == 2


@pytest.mark.parametrize(
    "limits",
    [{"scopes": sorted(ADMINISTER)}, {"networks": ["127.0.0.0/8"]}],
    ids=["scopes", "networks"],
)
def test_limited_token_cannot_set_the_password_of_its_owner(
    cast: Cast, client_of: Clients, limits: dict[str, Any]
) -> None:
    cast.admin.set_password("fjord-lamp-9031-quilt")
    cast.admin.save()
    path = f"users/{cast.admin.pk}/reset-password"
    limited = client_of(None)
    _, text = token_create(user=cast.admin, name="x", lifetime=timedelta(hours=1), **limits)
    limited.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert post(limited, path).status_code == 403
    assert post(client_of(cast.admin), path).status_code == 200


def test_own_access_is_shown_within_the_scopes(cast: Cast, client_of: Clients) -> None:
    reader = program(client_of, cast.admin, "allocations.view")
    admin, members = client_of(cast.admin), {"name": "lead", "privileges": ["members.manage"]}
    assert post(admin, "roles", members).status_code == 201
    for role in ("user", "lead"):
        bound = {"user": "admin", "role": role, "project": "default"}
        assert post(admin, "role-bindings", bound).status_code == 201
    shown = body(reader.get("/api/v1/access"))
    assert [p["name"] for p in shown["privileges"]] == ["allocations.view"]
    assert [b["role"] for b in shown["elsewhere"]] == ["user"]
