"""Visibility, request validation, tokens, passwords, enrolment and dry runs.

`access.txt` holds the privilege of each operation.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.db import router
from django.utils import timezone

from appliance.accounts import services
from appliance.accounts.models import ApiToken, Project, RoleBinding, User
from appliance.activity.models import Event
from appliance.api.errors import ApplianceError
from appliance.fleet.auth import admit_agent
from appliance.fleet.models import EnrolmentToken, NodeCertificate
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


def default_project() -> Project:
    return Project.objects.get(name="default")


def test_lists_show_only_visible_objects(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    add_node()
    client_of(cast.alice).post("/api/v1/allocations", {"percent": 5}, format="json")
    for path in ("allocations", "tasks"):
        assert len(body(client_of(cast.bob).get(f"/api/v1/{path}"))["items"]) == 1
        assert body(client_of(cast.charlie).get(f"/api/v1/{path}"))["items"] == []
    kinds = {e["kind"] for e in body(client_of(cast.charlie).get("/api/v1/events"))["items"]}
    assert kinds and not any(k.startswith("allocation") for k in kinds)


@pytest.mark.parametrize(
    "path",
    [
        "nodes?colour=red",
        "allocations?state=bogus",
        "events?limit=0",
        "nodes?cursor=%00",
        "gpus?limit=9999",
    ],
)
def test_invalid_query_parameter_is_rejected(cast: Cast, client_of: Clients, path: str) -> None:
    assert client_of(cast.olga).get(f"/api/v1/{path}").status_code == 400


@pytest.mark.parametrize(
    "content",
    [
        {"percent": 0},
        {"percent": 101},
        {"gpu_count": 0},
        {"gpu_count": "x"},
        {"pool": "absent"},
        {"project": "elsewhere"},
    ],
)
def test_invalid_allocation_request_is_rejected(
    cast: Cast, client_of: Clients, content: dict[str, Any]
) -> None:
    assert client_of(cast.alice).post(
        "/api/v1/allocations", content, format="json"
    ).status_code in (
        400,
        403,
        404,
    )


def test_duplicate_pool_name_is_a_conflict(cast: Cast, client_of: Clients) -> None:
    assert (
        client_of(cast.olga).post("/api/v1/pools", {"name": "default"}, format="json").status_code
        == 409
    )


def test_token_expires_and_only_its_hash_is_stored(cast: Cast, client_of: Clients) -> None:
    row, text = services.token_create(user=cast.alice, name="t", lifetime=timedelta(hours=1))
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert client.get("/api/v1/me").status_code == 200
    assert text.split(".")[1] not in str(ApiToken.objects.filter(pk=row.pk).values())
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}x")
    assert client.get("/api/v1/me").status_code == 401
    row.expires_at = timezone.now() - timedelta(seconds=1)
    row.save()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert client.get("/api/v1/me").status_code == 401


def test_cached_token_reflects_changed_roles_and_revocation_at_once(
    cast: Cast, client_of: Clients
) -> None:
    row, text = services.token_create(user=cast.charlie, name="t")
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert (
        client.get("/api/v1/me").status_code == 200
        and client.get("/api/v1/events").status_code == 200
    )
    assert (
        client.patch(
            "/api/v1/pools/00000000-0000-0000-0000-000000000000", {}, format="json"
        ).status_code
        == 403
    )
    RoleBinding.objects.create(user=cast.charlie, project=None, role="operator")
    assert (
        client.patch(
            "/api/v1/pools/00000000-0000-0000-0000-000000000000", {}, format="json"
        ).status_code
        == 404
    )
    cast.charlie.is_active = False
    cast.charlie.save()
    assert client.get("/api/v1/me").status_code == 401
    cast.charlie.is_active = True
    cast.charlie.save()
    assert client.get("/api/v1/me").status_code == 200
    services.token_revoke(token_id=row.pk)
    assert client.get("/api/v1/me").status_code == 401


def test_cached_token_expires(
    cast: Cast, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = services.token_create(user=cast.alice, name="t", lifetime=timedelta(hours=1))
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert client.get("/api/v1/me").status_code == 200
    later = timezone.now() + timedelta(hours=2)
    monkeypatch.setattr("appliance.accounts.authentication.timezone.now", lambda: later)
    assert client.get("/api/v1/me").status_code == 401


def test_one_time_password_must_be_changed_and_its_file_is_deleted(
    db: None, client_of: Clients, settings: Any
) -> None:
    password = services.ensure_defaults()
    assert password is not None and services.initial_password_file().stat().st_mode & 0o777 == 0o600
    client = client_of(None)
    response = body(
        client.post("/api/v1/login", {"username": "admin", "password": password}, format="json")
    )
    assert response["must_change_password"]
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {response['token']}")
    assert body(client.get("/api/v1/nodes"))["code"] == "password_change_required"
    weak = client_of(None).post(
        "/api/v1/login",
        {"username": "admin", "password": password, "new_password": "short"},
        format="json",
    )
    assert weak.status_code == 400
    changed = client_of(None).post(
        "/api/v1/login",
        {"username": "admin", "password": password, "new_password": "fjord-lamp-9031-quilt"},
        format="json",
    )
    assert (
        not body(changed)["must_change_password"] and not services.initial_password_file().exists()
    )
    assert (
        client_of(None)
        .post("/api/v1/login", {"username": "admin", "password": password}, format="json")
        .status_code
        == 401
    )


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The costs of each hash of a password that is computed: time, memory, threads."""
    found: list[tuple[int, int, int]] = []
    encode, verify = Argon2PasswordHasher.encode, Argon2PasswordHasher.verify

    def count_encode(hasher: Argon2PasswordHasher, password: str, salt: str) -> str:
        found.append((hasher.time_cost, hasher.memory_cost, hasher.parallelism))
        return encode(hasher, password, salt)

    def count_verify(hasher: Argon2PasswordHasher, password: str, encoded: str) -> bool:
        costs = hasher.decode(encoded)
        found.append((costs["time_cost"], costs["memory_cost"], costs["parallelism"]))
        return verify(hasher, password, encoded)

    monkeypatch.setattr(Argon2PasswordHasher, "encode", count_encode)
    monkeypatch.setattr(Argon2PasswordHasher, "verify", count_verify)
    return found


def test_wrong_login_costs_the_same_whether_or_not_the_account_exists(
    cast: Cast, hashed: list[tuple[int, int, int]]
) -> None:
    cast.alice.set_password("fjord-lamp-9031-quilt")
    cast.alice.save()
    User.objects.create(username="inactive", password=cast.alice.password, is_active=False)
    usual = Argon2PasswordHasher
    for name in ("alice", "unknown", "inactive", "bob"):
        hashed.clear()
        with pytest.raises(ApplianceError, match=r"^Wrong username or password\.$"):
            services.login(username=name, password="wrong")
        assert hashed == [(usual.time_cost, usual.memory_cost, usual.parallelism)], name


def test_reenrolment_with_node_id_keeps_the_node_and_revokes_old_certificates(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    from nodes.enrolment import new_key_and_csr

    node, olga = add_node("rack-7"), client_of(cast.olga)
    NodeCertificate.objects.create(
        serial="before", node=node, purpose="agent", not_after=timezone.now() + timedelta(days=1)
    )
    assert admit_agent("before") == node.pk
    text = body(olga.post("/api/v1/enrolment-tokens", {"node_id": str(node.pk)}, format="json"))[
        "token"
    ]
    secret = json.loads(base64.urlsafe_b64decode(text))["secret"]
    content = {
        "secret": secret,
        "hostname": "another-name",
        "agent_csr": new_key_and_csr()[1],
        "launcher_csr": new_key_and_csr()[1],
    }
    response = body(client_of(None).post("/api/v1/enrol", content, format="json"))
    assert (response["node_id"], response["node_name"]) == (str(node.pk), "rack-7")
    with pytest.raises(ApplianceError, match="enrol the machine again"):
        admit_agent("before")
    assert client_of(None).post("/api/v1/enrol", content, format="json").json() == response, (
        "a retry returns the first response"
    )
    assert NodeCertificate.objects.filter(node=node, revoked_at=None).count() == 2
    assert Event.objects.filter(kind="node.enrolled_again", object_id=node.pk).count() == 1
    assert (
        olga.post(
            "/api/v1/enrolment-tokens", {"node_id": str(uuid.uuid4())}, format="json"
        ).status_code
        == 404
    )


def test_enrolment_token_is_single_use(cast: Cast, client_of: Clients) -> None:
    from nodes.enrolment import new_key_and_csr

    text = body(client_of(cast.olga).post("/api/v1/enrolment-tokens"))["token"]
    secret = json.loads(base64.urlsafe_b64decode(text))["secret"]
    csr = {"agent_csr": new_key_and_csr()[1], "launcher_csr": new_key_and_csr()[1]}
    content = {"secret": secret, "hostname": "box", **csr}
    first = client_of(None).post("/api/v1/enrol", content, format="json")
    assert first.status_code == 201
    again = client_of(None).post("/api/v1/enrol", content, format="json")
    assert body(again)["node_id"] == body(first)["node_id"], (
        "a retry with the same key returns the same node"
    )
    other = client_of(None).post(
        "/api/v1/enrol", content | {"agent_csr": new_key_and_csr()[1]}, format="json"
    )
    assert other.status_code == 409 and body(other)["code"] == "token_spent"
    assert secret not in str(EnrolmentToken.objects.values())
    assert (
        client_of(None)
        .post("/api/v1/enrol", content | {"secret": "guess", "agent_csr": "x"}, format="json")
        .status_code
        == 409
    )


def test_certificate_ignores_the_subject_of_the_csr(cast: Cast, client_of: Clients) -> None:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    from appliance.fleet.certificates import load_authority, sign_node_certificate
    from nodes.enrolment import new_key_and_csr

    node_id = uuid.uuid4()
    certificate = sign_node_certificate(
        load_authority(settings.DATA_DIR), new_key_and_csr()[1], node_id, "agent"
    )
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == str(node_id)
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def all_rows() -> list[object]:
    """Return all rows of all tables but that of tokens, whose last use each request stores."""
    kept = [model for model in apps.get_models() if model is not ApiToken]
    return [
        list(model._default_manager.using(router.db_for_read(model)).order_by("pk").values())
        for model in kept
    ]


@pytest.mark.django_db(transaction=True, databases=list(settings.DATABASES))
def test_dry_run_returns_the_outcome_and_changes_nothing(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    add_node()
    alice, olga = client_of(cast.alice), client_of(cast.olga)
    held = body(alice.post("/api/v1/allocations", {"percent": 30}, format="json"))
    before = all_rows()
    tried = alice.post("/api/v1/allocations?dry_run=true", {"percent": 50}, format="json")
    assert (
        tried.status_code == 202
        and body(tried)["state"] == "preparing"
        and len(body(tried)["partitions"]) == 1
    )
    tried = alice.post("/api/v1/allocations?dry_run=true", {"percent": 80}, format="json")
    assert body(tried)["state"] == "queued" and "70 %" in body(tried)["waiting_reason"]
    assert (
        body(alice.delete(f"/api/v1/allocations/{held['id']}?dry_run=true"))["state"] == "releasing"
    )
    assert (
        olga.post("/api/v1/pools?dry_run=true", {"name": "new"}, format="json").status_code == 201
    )
    assert (
        olga.post("/api/v1/pools?dry_run=true", {"name": "default"}, format="json").status_code
        == 409
    )
    assert (
        alice.post("/api/v1/pools?dry_run=true", {"name": "new"}, format="json").status_code == 403
    )
    assert (
        olga.post("/api/v1/pools?dry_run=maybe", {"name": "new"}, format="json").status_code == 400
    )
    assert olga.post("/api/v1/nodes/enrol-ssh?dry_run=true", {}, format="json").status_code == 400
    assert all_rows() == before, "a dry run changed rows"
    assert (
        body(alice.post("/api/v1/allocations", {"percent": 70}, format="json"))["state"]
        == "preparing"
    ), "the scheduler kept the effect of a dry run"


def test_operator_of_a_project_cannot_request_a_reserved_priority(
    cast: Cast, client_of: Clients
) -> None:
    RoleBinding.objects.create(user=cast.bob, project=default_project(), role="administrator")
    urgent = {"percent": 5, "priority": 100, "allow_pending": True}
    refused = client_of(cast.bob).post("/api/v1/allocations", urgent, format="json")
    assert refused.status_code == 403 and "reserved" in body(refused)["detail"]
    assert (
        client_of(cast.olga).post("/api/v1/allocations", urgent, format="json").status_code == 202
    )


def test_owner_without_the_role_in_the_project_gets_no_ticket(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    held = body(alice.post("/api/v1/allocations", {"percent": 5}, format="json"))
    applied(node)
    content = {"client_public_key": "A" * 43 + "="}
    path = f"/api/v1/allocations/{held['id']}/tickets"
    assert alice.post(path, content, format="json").status_code == 200
    RoleBinding.objects.filter(user=cast.alice).update(role="viewer")
    elsewhere = Project.objects.get(name="elsewhere")
    RoleBinding.objects.create(user=cast.alice, project=elsewhere, role="user")
    assert alice.post(path, content, format="json").status_code == 403
