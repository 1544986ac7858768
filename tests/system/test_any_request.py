"""Every operation of the OpenAPI file, asked for what its description allows and for what it does not: never a 5xx, never an answer that is not described."""

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
from schemathesis.specs.openapi.checks import positive_data_acceptance

from deploy.supervisor import ROOT, Stack
from remoting.cli.api import Api, Context

pytestmark = pytest.mark.system

NODES = 6
EXAMPLES = 50
document = yaml.load(
    (ROOT / "docs" / "openapi.yaml").read_text(),
    Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
)
document["paths"].pop("/api/v1/watch")  # its answer has no end; test_watch.py asks it
schema = schemathesis.openapi.from_dict(document)
schema.config.generation.update(
    allow_x00=False
)  # no text of ours has a NUL, and no schema can say so shortly
RULES_BETWEEN_FIELDS = {
    *(f"GET /api/v1/{kind}/{{object_id}}/metrics" for kind in ("gpus", "partitions", "projects", "sessions")),
    "PATCH /api/v1/nodes/{node_id}", "PATCH /api/v1/projects/{project_id}", "PATCH /api/v1/quotas/{quota_id}",
    "POST /api/v1/nodes/enrol-ssh", "POST /api/v1/reservations", "POST /api/v1/quotas",
}  # fmt: skip
"""What is right field by field may still be refused here: one of three credentials, an end after its start, a quota below its limit, a name of something."""
KINDS = {
    "node_id": "nodes", "gpu_id": "gpus", "pool_id": "pools", "project_id": "projects", "allocation_id": "allocations", "quota_id": "quotas",
    "reservation_id": "reservations", "task_id": "tasks", "session_id": "sessions",
}  # fmt: skip
existing: dict[str, list[str]] = {}
"""Ids by the name of the parameter that takes them."""


class Asked:
    def __init__(self, stack: Stack) -> None:
        self.url, self.ca = stack.url, str(stack.appliance_data / "ca.pem")
        made = [
            stack.manage("create_token", "--role", "administrator", "--hours", "1").splitlines()[-1]
            for _ in range(2)
        ]
        self.token, self.ending = made
        self.session = requests.Session()
        self.session.verify = self.ca
        self.session.trust_env = False


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("asked")
    stack = Stack(folder, base_port=28743)
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
        found = Asked(stack)
        api = Api(Context(stack.url, found.token, (stack.appliance_data / "ca.pem").read_text()))
        fill(api)
        existing.update(
            {name: [row["id"] for row in api.items(kind)][:20] for name, kind in KINDS.items()}
        )
        existing["object_id"] = existing["gpu_id"] + existing["project_id"]
        yield found
    finally:
        del os.environ["BUSBAR_SSH_SECONDS"]
        stack.stop()


def fill(api: Api) -> None:
    """One of each at least."""
    api.request("POST", "allocations", {"percent": 10, "project": "team0"})
    api.request("POST", "quotas", {"subject_kind": "project", "subject": "team0", "quota_gpus": 1})
    api.request("POST", "departments", {"name": "lab"})


@schema.hook
def map_case(context: Any, case: Any) -> Any:
    """Half of the ids of requests that are right are those of something that is there."""
    if case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE:
        for name, made in (case.path_parameters or {}).items():
            ids, chance = existing.get(name), zlib.crc32(repr(made).encode())
            if ids and chance % 2:
                case.path_parameters[name] = ids[chance // 2 % len(ids)]
    return case


@schema.hook
def map_query(context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
    if query and isinstance(query.get("wait"), int | float):
        query["wait"] = min(query["wait"], 0.01)
    return query


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
    derandomize=True,
)
def test_any_request_is_answered_as_described(case: schemathesis.Case[Any], asked: Asked) -> None:
    token = asked.ending if case.path.endswith("browser-login") else asked.token
    unsaid: Any = (
        [positive_data_acceptance] if f"{case.method} {case.path}" in RULES_BETWEEN_FIELDS else []
    )
    case.call_and_validate(
        excluded_checks=unsaid,
        base_url=asked.url,
        session=asked.session,
        verify=asked.ca,
        headers={"Authorization": f"Bearer {token}"},
    )


def test_an_answer_that_is_not_described_is_noticed(asked: Asked) -> None:
    """Planted: the description forgets that a pool may not be there."""
    operation = {**document["paths"]["/api/v1/pools/{pool_id}"]["get"]}
    operation["responses"] = {
        status: answer for status, answer in operation["responses"].items() if status != "404"
    }
    forgetful = schemathesis.openapi.from_dict(
        {**document, "paths": {"/api/v1/pools/{pool_id}": {"get": operation}}}
    )
    case = forgetful["/api/v1/pools/{pool_id}"]["GET"].Case(
        path_parameters={"pool_id": str(uuid.uuid4())}
    )
    with pytest.raises(FailureGroup, match="Undocumented"):
        case.call_and_validate(
            base_url=asked.url, verify=asked.ca, headers={"Authorization": f"Bearer {asked.token}"}
        )
