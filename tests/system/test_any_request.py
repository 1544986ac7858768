"""Generated valid and invalid requests for every operation of the OpenAPI description.

No response has a 5xx status, and each one conforms to the description (Schemathesis). The requests
are the same in each run; `./test --long requests` sends more, also one for each boundary of each
schema.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
)

from deploy.supervisor import ROOT, Stack
from remoting.cli.api import Api, Context
from tests.migrated import place_migrated_databases
from tests.ports import port

pytestmark = pytest.mark.system

NODES = 6
EXAMPLES = int(os.environ.get("BUSBAR_TEST_EXAMPLES", "8"))
"""For each operation, beside those of the description."""
HAS_BOUNDARIES = bool(os.environ.get("BUSBAR_TEST_BOUNDARIES"))
document = yaml.load(
    (ROOT / "docs" / "openapi.yaml").read_text(),
    Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
)
document["paths"].pop("/api/v1/watch")  # an endless stream, covered by test_watch.py
document["paths"].pop("/api/v1/feed")  # a WebSocket, covered by test_feed.py
schema = schemathesis.openapi.from_dict(document)
# PostgreSQL and our texts reject NUL, which schemas cannot express concisely.
schema.config.generation.update(allow_x00=False)
schema.config.phases.coverage.enabled = HAS_BOUNDARIES
# `If-Match: *` does not match an object that does not exist (RFC 9110, 13.1.1).
for check in (
    schema.config.checks.positive_data_acceptance,
    schema.config.checks.negative_data_rejection,
):
    check.expected_statuses = [*check.expected_statuses, "412"]
OPERATIONS_WITH_CROSS_FIELD_RULES = {
    *(
        f"GET /api/v1/{kind}/{{object_id}}/metrics"
        for kind in ("gpus", "partitions", "projects", "sessions")
    ),
    "POST /api/v1/actions",
    "POST /api/v1/alarm-definitions",
    "PATCH /api/v1/alarm-definitions/{definition_id}",
    "POST /api/v1/allocations",
    "POST /api/v1/certificate-renewals",
    "POST /api/v1/device-logins/token",
    "POST /api/v1/bulk",
    "PATCH /api/v1/gpus/{gpu_id}",
    "PATCH /api/v1/settings",
    "PATCH /api/v1/nodes/{node_id}",
    "POST /api/v1/pools",
    "PATCH /api/v1/pools/{pool_id}",
    "POST /api/v1/projects",
    "PATCH /api/v1/projects/{project_id}",
    "POST /api/v1/tokens",
    "PATCH /api/v1/quotas/{quota_id}",
    *(f"POST /api/v1/key-rotations/{{kind}}/{action}" for action in ("start", "advance", "abort")),
    "POST /api/v1/nodes/enrol-ssh",
    "POST /api/v1/reservations",
    "POST /api/v1/quotas",
    "GET /api/v1/access",
    "GET /api/v1/passkey-logins/options",
    "POST /api/v1/groups/{group_id}/members",
    "POST /api/v1/role-bindings",
    "POST /api/v1/users",
}
"""Operations that may reject a body whose single fields are valid.

Examples: exactly one of three credentials, either a user or a group, an end after the start, a
quota below the limit, a metric without a limit, the name of an existing object, a certificate, the
secret of a device, a phase in which a rotation is, an atomic request with reads, a kind of objects,
a key of labels, a network, or a domain name in the settings, for which OpenAPI 3.0 has no rule.
"""
KINDS = {
    "node_id": "nodes",
    "gpu_id": "gpus",
    "pool_id": "pools",
    "project_id": "projects",
    "allocation_id": "allocations",
    "quota_id": "quotas",
    "reservation_id": "reservations",
    "task_id": "tasks",
    "session_id": "sessions",
}
existing: dict[str, list[str]] = {}
"""Ids of existing objects by path parameter."""


class Target:
    """A running appliance. `disposable_token` is used for requests that revoke their token."""

    def __init__(self, stack: Stack) -> None:
        self.url, self.ca = stack.url, str(stack.appliance_data / "ca.pem")
        tokens = [
            stack.manage("create_token", "--role", "administrator", "--hours", "1").splitlines()[-1]
            for _ in range(2)
        ]
        self.token, self.disposable_token = tokens
        self.session = requests.Session()
        self.session.verify = self.ca
        self.session.trust_env = False


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("target")
    stack = Stack(folder, base_port=port(200))
    place_migrated_databases(stack.appliance_data)
    environment = (
        os.environ
        | stack.appliance_environment()
        | {"PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "appliance.settings"}
    )
    subprocess.run(
        [sys.executable, "-m", "tests.load.population", str(folder), str(NODES)],
        env=environment,
        cwd=ROOT,
        check=True,
    )
    os.environ["BUSBAR_SSH_SECONDS"] = "0.5"
    try:
        stack.start_appliance()
        target = Target(stack)
        api = Api(Context(stack.url, target.token, (stack.appliance_data / "ca.pem").read_text()))
        create_objects(api)
        existing.update(
            {name: [row["id"] for row in api.items(kind)][:20] for name, kind in KINDS.items()}
        )
        existing["object_id"] = existing["gpu_id"] + existing["project_id"]
        yield target
    finally:
        del os.environ["BUSBAR_SSH_SECONDS"]
        stack.stop()


def create_objects(api: Api) -> None:
    """Create an object of each kind that the population lacks."""
    api.request("POST", "allocations", {"percent": 10, "project": "team0", "allow_pending": True})
    api.request("POST", "quotas", {"subject_kind": "project", "subject": "team0", "quota_gpus": 1})
    api.request("POST", "departments", {"name": "lab"})


@schema.hook
def map_case(context: Any, case: Any) -> Any:
    """Replace half of the ids of valid requests by ids of existing objects.

    Cursors are left out: only a page gives one.
    """
    if case.query:
        case.query.pop("cursor", None)
    if case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE:
        for name, generated in (case.path_parameters or {}).items():
            ids, chance = existing.get(name), zlib.crc32(repr(generated).encode())
            if ids and chance % 2:
                case.path_parameters[name] = ids[chance // 2 % len(ids)]
    return case


def match_and_repeat_nothing(headers: Any) -> None:
    """Match each version, and repeat no request: schemas cannot express versions and keys.

    No hook does this, because none sees the examples of the description.
    """
    if headers and "If-Match" in headers:
        headers["If-Match"] = "*"
    if headers and "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = uuid.uuid4().hex


@schema.hook
def map_body(context: Any, body: Any) -> Any:
    """Set up no mail server and no sign-in policy, which would stop the requests that follow."""
    if context.operation.path == "/api/v1/settings" and isinstance(body, dict):
        mail = body.get("mail")
        if isinstance(mail, dict):
            mail.pop("host", None)
        body.pop("sign_in", None)
    return body


@schema.hook
def map_query(context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
    if query and isinstance(query.get("wait"), int | float):
        query["wait"] = min(query["wait"], 0.01)
    return query


@pytest.mark.long
@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
    derandomize=True,
)
def test_response_to_any_request_conforms_to_openapi(
    case: schemathesis.Case[Any], target: Target
) -> None:
    match_and_repeat_nothing(case.headers)
    revokes = case.path.endswith("browser-login")
    token = target.disposable_token if revokes else target.token
    cross_field = f"{case.method} {case.path}" in OPERATIONS_WITH_CROSS_FIELD_RULES
    excluded: list[Any] = [positive_data_acceptance] if cross_field else []
    if "fields" in (case.query or {}):
        excluded.append(response_schema_conformance)  # items have the named fields only
    if "labels" in (case.query or {}):
        excluded.append(negative_data_rejection)  # the pattern has a part of all selectors
    case.call_and_validate(
        excluded_checks=excluded,
        base_url=target.url,
        session=target.session,
        verify=target.ca,
        headers={"Authorization": f"Bearer {token}"},
    )


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_malformed_body_is_refused(target: Target, query: str) -> None:
    """The writer runs a dry run again after an error, and the second one had no body."""
    response = target.session.patch(
        f"{target.url}/api/v1/me/notifications{query}",
        data=b"{",
        headers={"Authorization": f"Bearer {target.token}", "Content-Type": "application/json"},
    )
    assert response.status_code == 400, response.text


def test_undocumented_response_is_detected(target: Target) -> None:
    """Planted fault: the description lacks the 404 response of a pool."""
    operation = {**document["paths"]["/api/v1/pools/{pool_id}"]["get"]}
    operation["responses"] = {
        status: response for status, response in operation["responses"].items() if status != "404"
    }
    incomplete = schemathesis.openapi.from_dict(
        {**document, "paths": {"/api/v1/pools/{pool_id}": {"get": operation}}}
    )
    case = incomplete["/api/v1/pools/{pool_id}"]["GET"].Case(
        path_parameters={"pool_id": str(uuid.uuid4())}
    )
    headers = {"Authorization": f"Bearer {target.token}"}
    with pytest.raises(FailureGroup, match="Undocumented"):
        case.call_and_validate(base_url=target.url, verify=target.ca, headers=headers)
