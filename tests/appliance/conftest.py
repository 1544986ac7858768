"""Fixtures: users with roles, API clients and nodes.

alice and bob are users of the default project. charlie is a user of another one, oscar its
operator, ada and viola its administrators. olga is an operator of the appliance, vera and viola are
viewers, admin is an administrator. nina and mara get roles in the inventory from tests.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from rest_framework.test import APIClient
from whitenoise.middleware import WhiteNoiseMiddleware

from appliance.accounts.models import Project, Role, RoleBinding, User
from appliance.accounts.services import token_create
from appliance.allocations.index import index
from appliance.api.description.error_codes import codes_of
from appliance.api.views import ApplianceView
from appliance.fleet.certificates import load_authority
from appliance.inventory.models import Node, NodeState
from appliance.inventory.reports import ReportedGpu, ReportedNode, create_node, record_node_report
from appliance.pools.services import ensure_default_pool
from appliance.runtime import background, live_settings
from appliance.telemetry import reachability
from tests.migrated import DATABASES, fill_memory_database

if TYPE_CHECKING:
    from tests.appliance.commands_in_process import Busbar, BusbarOf
    from tests.appliance.suspending_client import Client

GIB = 1 << 30
UNIVERSAL_STATUSES = (405, 406, 413, 415, 500)
"""Statuses that no single operation declares."""
NAMES = "alice bob charlie oscar ada viola olga vera admin nina mara".split()  # noqa: SIM905


@dataclass
class Cast:
    alice: User
    bob: User
    charlie: User
    oscar: User
    ada: User
    viola: User
    olga: User
    vera: User
    admin: User
    nina: User
    mara: User


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> Iterator[None]:
    """Let Django find migrated tables in the databases that it makes."""
    if settings.ENVIRONMENT.database:
        yield
        return
    files = zip(settings.DATABASES, DATABASES, strict=True)
    kept = [fill_memory_database(alias, file) for alias, file in files]
    yield
    for connection in kept:
        connection.close()


@pytest.fixture(autouse=True, scope="session")
def static_files_read_once() -> None:
    """Read console and Swagger UI for the first client; each client has a middleware of its own."""
    read_files, first = WhiteNoiseMiddleware.__init__, list[WhiteNoiseMiddleware]()

    def share_files(middleware: WhiteNoiseMiddleware, get_response: Any) -> None:
        if first:
            vars(middleware).update(vars(first[0]) | {"get_response": get_response})
        else:
            read_files(middleware, get_response)
            first.append(middleware)

    WhiteNoiseMiddleware.__init__ = share_files


@pytest.fixture(autouse=True, scope="session")
def passwords_hashed_quickly() -> None:
    """Hash passwords of tests with the least costs: those of the product take 0.1 s each."""
    Argon2PasswordHasher.time_cost = Argon2PasswordHasher.parallelism = 1
    Argon2PasswordHasher.memory_cost = 8


@pytest.fixture(autouse=True)
def empty_scheduler_index() -> None:
    index.reset()


@pytest.fixture(autouse=True)
def default_settings() -> Iterator[None]:
    """Forget the settings of a test, whose row is rolled back."""
    yield
    live_settings.replace({})


@pytest.fixture(autouse=True)
def no_failed_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget work that failed in other tests: it raises an alarm."""
    monkeypatch.setattr(background, "_failed_at", {})


@pytest.fixture(autouse=True)
def declared_error_codes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail for a response with an error code that the OpenAPI document of its operation lacks."""
    undeclared: list[str] = []
    finalize = ApplianceView.finalize_response

    def compared(view: ApplianceView, request: Any, response: Any, *args: Any, **kw: Any) -> Any:
        final = finalize(view, request, response, *args, **kw)
        match, content = request._request.resolver_match, getattr(final, "data", None)
        code = content.get("code") if isinstance(content, dict) else None
        if match is None or final.status_code < 400 or final.status_code in UNIVERSAL_STATUSES:
            return final
        declared = codes_of(view, request.method, match.route.replace("<", "{"))
        if request.method in view.privileges and code not in declared:
            undeclared.append(f"{request.method} {match.route}: {code}")
        return final

    monkeypatch.setattr(ApplianceView, "finalize_response", compared)
    yield
    assert not undeclared, f"error_codes of the view lack {undeclared}"


@pytest.fixture
def cast(db: None) -> Cast:
    ensure_default_pool()
    load_authority(settings.DATA_DIR)
    ours, theirs = (
        Project.objects.get_or_create(name="default")[0],
        Project.objects.create(name="elsewhere"),
    )
    people = {name: User.objects.create(username=name) for name in NAMES}
    for name, role, project in (
        ("alice", Role.USER, ours),
        ("bob", Role.USER, ours),
        ("charlie", Role.USER, theirs),
        ("oscar", Role.OPERATOR, theirs),
        ("ada", Role.ADMINISTRATOR, theirs),
        ("viola", Role.ADMINISTRATOR, theirs),
        ("viola", Role.VIEWER, None),
        ("olga", Role.OPERATOR, None),
        ("vera", Role.VIEWER, None),
        ("admin", Role.ADMINISTRATOR, None),
    ):
        RoleBinding.objects.create(user=people[name], project=project, role=role)
    return Cast(**people)


@pytest.fixture
def client_of() -> Callable[[User | None], APIClient]:
    def make(user: User | None) -> APIClient:
        client = APIClient()
        if user is not None:
            client.credentials(
                HTTP_AUTHORIZATION=f"Bearer {token_create(user=user, name='test')[1]}"
            )
        return client

    return make


@pytest.fixture
def add_node(db: None) -> Callable[..., Node]:
    def make(name: str = "node", gpus: int = 1, memory_bytes: int = 8 * GIB) -> Node:
        ensure_default_pool()
        node = create_node(name=name)
        reported = tuple(
            ReportedGpu(uuid.uuid4(), i, "Test GPU", memory_bytes, "12.0") for i in range(gpus)
        )
        record_node_report(
            node_id=node.pk,
            report=ReportedNode(
                "1",
                "1",
                "test",
                True,
                "boot",
                (("127.0.0.1", 8445),),
                reported,
                suspends_sessions=True,
                resizes_allocations=True,
            ),
        )
        reachability.record_heartbeat(node.pk)
        node.refresh_from_db()
        assert node.state == NodeState.READY
        return node

    return make


@pytest.fixture
def alice(cast: Cast, client_of: Callable[..., Any], add_node: Callable[..., Node]) -> Client:
    """The user alice, with a node."""
    from tests.appliance.suspending_client import Client

    return Client(client_of(cast.alice), add_node())


@pytest.fixture
def busbar_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> BusbarOf:
    """Return the commands of the user of a client."""
    from tests.appliance.commands_in_process import busbar_for

    return lambda client: busbar_for(client, monkeypatch, capsys)


@pytest.fixture
def busbar(cast: Cast, client_of: Callable[..., Any], busbar_of: BusbarOf) -> Busbar:
    """The commands of the administrator."""
    return busbar_of(client_of(cast.admin))


@pytest.fixture
def busbar_of_alice(alice: Client, busbar_of: BusbarOf) -> Busbar:
    return busbar_of(alice.client)


def applied(node: Node) -> None:
    """Report that the node has applied its newest generation."""
    from appliance.fleet.reports import record_applied

    node.refresh_from_db()
    record_applied(node.pk, node.generation)


def body(response: Any) -> Any:
    return response.json()
