"""Who may do what: every view names its privilege, and the matrix of roles is as written here."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.urls import URLPattern, get_resolver
from django.utils import timezone

from appliance.accounts import services
from appliance.accounts.models import ApiToken, Project, RoleBinding, User
from appliance.accounts.permissions import PRIVILEGES
from appliance.fleet.models import EnrolmentToken
from appliance.inventory.models import Node
from appliance.pools.models import Pool
from appliance.rest import ApplianceView
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
EVERY = set().union(*PRIVILEGES.values()) | {"public"}


def views() -> Iterator[tuple[str, type[ApplianceView]]]:
    for pattern in get_resolver().url_patterns:
        assert isinstance(pattern, URLPattern)
        if str(pattern.pattern).startswith("api/v1/"):
            yield str(pattern.pattern), pattern.callback.view_class


def test_every_view_names_a_known_privilege_for_each_of_its_methods() -> None:
    for path, view in views():
        assert issubclass(view, ApplianceView), f"{path} goes round can() and visible_to()"
        methods = {m.upper() for m in ("get", "post", "put", "patch", "delete") if hasattr(view, m)}
        assert methods == set(view.privileges), f"{path}: {methods} against {set(view.privileges)}"
        assert set(view.privileges.values()) <= EVERY, path


# operation: what alice (owner), bob (same project), charlie (stranger), vera (viewer), olga (operator), nobody get
MATRIX = {
    ("GET", "/api/v1/me"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/appliance"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/nodes"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/nodes/{node}"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/nodes/{absent}"): (404, 404, 404, 404, 404, 401),
    ("POST", "/api/v1/nodes/{node}/cordon"): (403, 403, 403, 403, 200, 401),
    ("POST", "/api/v1/nodes/{node}/enter-maintenance"): (403, 403, 403, 403, 202, 401),
    ("POST", "/api/v1/nodes/{node}/exit-maintenance"): (403, 403, 403, 403, 409, 401),
    ("GET", "/api/v1/nodes/{node}/blockers"): (403, 403, 403, 403, 200, 401),
    ("GET", "/api/v1/gpus"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/gpus/{gpu}"): (200, 200, 200, 200, 200, 401),
    ("PATCH", "/api/v1/gpus/{gpu}"): (403, 403, 403, 403, 200, 401),
    ("GET", "/api/v1/gpus/{gpu}/metrics"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/partitions/{partition}/metrics"): (200, 200, 404, 200, 200, 401),
    ("GET", "/api/v1/sessions/{absent}/metrics"): (404, 404, 404, 404, 404, 401),
    ("GET", "/api/v1/projects/{project}/metrics"): (200, 200, 404, 200, 200, 401),
    ("GET", "/api/v1/pools"): (200, 200, 200, 200, 200, 401),
    ("POST", "/api/v1/pools"): (403, 403, 403, 403, 201, 401),
    ("PATCH", "/api/v1/pools/{pool}"): (403, 403, 403, 403, 200, 401),
    ("GET", "/api/v1/pools/{pool}/defragmentation"): (403, 403, 403, 403, 200, 401),
    ("GET", "/api/v1/quotas"): (200, 200, 200, 200, 200, 401),
    ("POST", "/api/v1/quotas"): (403, 403, 403, 403, 201, 401),
    ("GET", "/api/v1/quotas/{absent}"): (404, 404, 404, 404, 404, 401),
    ("PATCH", "/api/v1/quotas/{absent}"): (403, 403, 403, 403, 404, 401),
    ("DELETE", "/api/v1/quotas/{absent}"): (403, 403, 403, 403, 404, 401),
    ("GET", "/api/v1/reservations"): (200, 200, 200, 200, 200, 401),
    ("POST", "/api/v1/reservations"): (403, 403, 403, 403, 201, 401),
    ("GET", "/api/v1/reservations/{absent}"): (404, 404, 404, 404, 404, 401),
    ("DELETE", "/api/v1/reservations/{absent}"): (403, 403, 403, 403, 404, 401),
    ("GET", "/api/v1/projects"): (200, 200, 200, 200, 200, 401),
    ("POST", "/api/v1/projects"): (403, 403, 403, 403, 403, 401),
    ("PATCH", "/api/v1/projects/{absent}"): (403, 403, 403, 403, 403, 401),
    ("GET", "/api/v1/departments"): (200, 200, 200, 200, 200, 401),
    ("POST", "/api/v1/departments"): (403, 403, 403, 403, 403, 401),
    ("GET", "/api/v1/allocations/{allocation}/explanation"): (200, 200, 404, 200, 200, 401),
    ("GET", "/api/v1/allocations"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/allocations/{allocation}"): (200, 200, 404, 200, 200, 401),
    ("GET", "/api/v1/allocations/{absent}"): (404, 404, 404, 404, 404, 401),
    ("POST", "/api/v1/allocations/{allocation}/heartbeat"): (200, 403, 404, 403, 200, 401),
    ("DELETE", "/api/v1/allocations/{allocation}"): (202, 403, 404, 403, 202, 401),
    ("POST", "/api/v1/allocations/{allocation}/force-release"): (403, 403, 403, 403, 403, 401),
    ("GET", "/api/v1/sessions"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/tasks"): (200, 200, 200, 200, 200, 401),
    ("GET", "/api/v1/events"): (200, 200, 200, 200, 200, 401),
    ("POST", "/api/v1/enrolment-tokens"): (403, 403, 403, 403, 201, 401),
    ("PATCH", "/api/v1/nodes/{node}"): (403, 403, 403, 403, 200, 401),
    ("DELETE", "/api/v1/nodes/{node}"): (403, 403, 403, 403, 409, 401),
    ("GET", "/api/v1/partitions"): (200, 200, 200, 200, 200, 401),
    ("POST", "/api/v1/nodes/enrol-ssh"): (403, 403, 403, 403, 409, 401),
    ("GET", "/api/v1/ssh-host-keys"): (403, 403, 403, 403, 200, 401),
    ("DELETE", "/api/v1/ssh-host-keys/{absent}"): (403, 403, 403, 403, 403, 401),
    ("GET", "/api/v1/bundles/2.7"): (403, 403, 403, 403, 404, 401),
    ("DELETE", "/api/v1/browser-login"): (204, 204, 204, 204, 204, 401),
}
BODIES = {
    "pools": {"name": "p"},
    "enrol-ssh": {"address": "127.0.0.1", "port": 1, "password": "x"},  # nobody listens there
    "nodes": {"labels": {"rack": "r12"}},
    "quotas": {"subject_kind": "project", "subject": "elsewhere", "quota_gpus": 2.3},
    "reservations": {
        "name": "course",
        "pool": "default",
        "project": "default",
        "gpu_count": 1,
        "starts_at": "2099-01-01T08:00:00Z",
        "ends_at": "2099-01-01T10:00:00Z",
    },
}


@pytest.mark.django_db(databases=list(settings.DATABASES))
@pytest.mark.parametrize("operation", MATRIX, ids=lambda o: " ".join(o))
def test_the_matrix(cast: Cast, client_of: Clients, add_node: Callable[..., Node], operation: tuple[str, str]) -> None:
    method, template = operation
    node = add_node()
    for who, expected in zip((cast.alice, cast.bob, cast.charlie, cast.vera, cast.olga, None), MATRIX[operation], strict=True):
        allocation = body(client_of(cast.alice).post("/api/v1/allocations", {"percent": 5}, format="json"))
        applied(node)
        shares = allocation["partitions"]
        path = template.format(
            gpu=node.gpus.get().pk, partition=shares[0]["id"] if shares else uuid.uuid4(), project=Project.objects.get(name="default").pk, node=node.pk,
            allocation=allocation["id"], pool=Pool.objects.get(name="default").pk, absent=uuid.uuid4(),
        )  # fmt: skip
        sent = BODIES.get(path.split("/")[-1]) or (BODIES["nodes"] if method == "PATCH" and "nodes" in path else {} if method == "PATCH" else None)
        response = client_of(who).generic(method, path, json.dumps(sent) if sent is not None else "", "application/json")
        assert response.status_code == expected, (who, response.content)
        if expected >= 400:
            assert response["Content-Type"] == "application/problem+json" and body(response)["detail"]


def test_lists_show_only_what_one_may_see(cast: Cast, client_of: Clients, add_node: Callable[..., Node]) -> None:
    add_node()
    client_of(cast.alice).post("/api/v1/allocations", {"percent": 5}, format="json")
    for path in ("allocations", "tasks"):
        assert len(body(client_of(cast.bob).get(f"/api/v1/{path}"))["items"]) == 1
        assert body(client_of(cast.charlie).get(f"/api/v1/{path}"))["items"] == []
    kinds = {e["kind"] for e in body(client_of(cast.charlie).get("/api/v1/events"))["items"]}
    assert kinds and not any(k.startswith("allocation") for k in kinds)


@pytest.mark.parametrize("path", ["nodes?colour=red", "allocations?state=bogus", "events?limit=0", "nodes?cursor=%00", "gpus?limit=9999"])
def test_a_wrong_parameter_is_refused(cast: Cast, client_of: Clients, path: str) -> None:
    assert client_of(cast.olga).get(f"/api/v1/{path}").status_code == 400


@pytest.mark.parametrize("wanted", [{"percent": 0}, {"percent": 101}, {"gpu_count": 0}, {"gpu_count": "x"}, {"pool": "absent"}, {"project": "elsewhere"}])
def test_a_wrong_allocation_is_refused(cast: Cast, client_of: Clients, wanted: dict[str, Any]) -> None:
    assert client_of(cast.alice).post("/api/v1/allocations", wanted, format="json").status_code in (400, 403, 404)


def test_a_taken_pool_name_is_a_conflict(cast: Cast, client_of: Clients) -> None:
    assert client_of(cast.olga).post("/api/v1/pools", {"name": "default"}, format="json").status_code == 409


def test_tokens_end_and_only_their_hash_is_kept(cast: Cast, client_of: Clients) -> None:
    row, text = services.token_create(user=cast.alice, name="t", life=timedelta(hours=1))
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


def test_who_a_token_is_may_be_kept_and_what_changes_counts_at_once(cast: Cast, client_of: Clients) -> None:
    row, text = services.token_create(user=cast.charlie, name="t")
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert client.get("/api/v1/me").status_code == 200 and client.get("/api/v1/events").status_code == 200
    assert client.patch("/api/v1/pools/00000000-0000-0000-0000-000000000000", {}, format="json").status_code == 403
    RoleBinding.objects.create(user=cast.charlie, project=None, role="operator")
    assert client.patch("/api/v1/pools/00000000-0000-0000-0000-000000000000", {}, format="json").status_code == 404
    cast.charlie.is_active = False
    cast.charlie.save()
    assert client.get("/api/v1/me").status_code == 401
    cast.charlie.is_active = True
    cast.charlie.save()
    assert client.get("/api/v1/me").status_code == 200
    services.token_revoke(token_id=row.pk)
    assert client.get("/api/v1/me").status_code == 401


def test_a_kept_token_ends_when_its_time_is_over(cast: Cast, client_of: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = services.token_create(user=cast.alice, name="t", life=timedelta(hours=1))
    client = client_of(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    assert client.get("/api/v1/me").status_code == 200
    later = timezone.now() + timedelta(hours=2)
    monkeypatch.setattr("appliance.accounts.authentication.timezone.now", lambda: later)
    assert client.get("/api/v1/me").status_code == 401


def test_the_one_time_password_must_be_changed_and_its_file_goes(db: None, client_of: Clients, settings: Any) -> None:
    password = services.ensure_defaults()
    assert password is not None and services.initial_password_file().stat().st_mode & 0o777 == 0o600
    client = client_of(None)
    answer = body(client.post("/api/v1/login", {"username": "admin", "password": password}, format="json"))
    assert answer["must_change_password"]
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {answer['token']}")
    assert body(client.get("/api/v1/nodes"))["code"] == "password_change_required"
    weak = client_of(None).post("/api/v1/login", {"username": "admin", "password": password, "new_password": "short"}, format="json")
    assert weak.status_code == 400
    changed = client_of(None).post("/api/v1/login", {"username": "admin", "password": password, "new_password": "fjord-lamp-9031-quilt"}, format="json")
    assert not body(changed)["must_change_password"] and not services.initial_password_file().exists()
    assert client_of(None).post("/api/v1/login", {"username": "admin", "password": password}, format="json").status_code == 401


def test_guessing_is_slowed_down(cast: Cast, client_of: Clients) -> None:
    services._attempts.clear()
    answers = [client_of(None).post("/api/v1/login", {"username": "alice", "password": "x"}, format="json").status_code for _ in range(6)]
    assert answers == [401] * 5 + [429]
    services._attempts.clear()


def test_enrolment_tokens_are_single_use(cast: Cast, client_of: Clients) -> None:
    import base64
    import json

    from nodes.enrolment import new_key_and_csr

    text = body(client_of(cast.olga).post("/api/v1/enrolment-tokens"))["token"]
    secret = json.loads(base64.urlsafe_b64decode(text))["secret"]
    csr = {"agent_csr": new_key_and_csr()[1], "launcher_csr": new_key_and_csr()[1]}
    wanted = {"secret": secret, "hostname": "box", **csr}
    first = client_of(None).post("/api/v1/enrol", wanted, format="json")
    assert first.status_code == 201
    again = client_of(None).post("/api/v1/enrol", wanted, format="json")
    assert body(again)["node_id"] == body(first)["node_id"], "a retry with the same key gets the same answer"
    other = client_of(None).post("/api/v1/enrol", wanted | {"agent_csr": new_key_and_csr()[1]}, format="json")
    assert other.status_code == 409 and body(other)["code"] == "token_spent"
    assert secret not in str(EnrolmentToken.objects.values())
    assert client_of(None).post("/api/v1/enrol", wanted | {"secret": "guess", "agent_csr": "x"}, format="json").status_code == 409


def test_the_csr_cannot_choose_its_name(cast: Cast, client_of: Clients) -> None:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    from django.conf import settings

    from appliance.fleet.certificates import load_authority, sign_node
    from nodes.enrolment import new_key_and_csr

    node_id = uuid.uuid4()
    certificate = sign_node(load_authority(settings.DATA_DIR), new_key_and_csr()[1], node_id, "agent")
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == str(node_id)
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
