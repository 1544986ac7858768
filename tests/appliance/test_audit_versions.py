"""Audit records of changes: each has the version of the object, by which the console names who
has made a conflicting change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.audit.models import AuditRecord
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast
from tests.appliance.test_access_matrix import TABLE, Row, create_object, view_of

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
OTHER_CHANGES = {
    "pools/{pool_id}": {"max_idle_seconds": 60},
    "gpus/{gpu_id}": {"notes": "loud"},
    "projects/{project_id}": {"labels": {"a": "b"}},
}
"""Requests that change something, of operations whose request in access.txt does not."""
CHANGES = [
    row for row in TABLE if row.method == "PATCH" and "PATCH" in view_of(row).version_methods
]


@pytest.mark.parametrize("row", CHANGES, ids=str)
def test_record_of_a_change_has_the_version_of_it(
    cast: Cast, client_of: Clients, add_node: AddNode, row: Row
) -> None:
    node, client = add_node(), client_of(cast.admin)
    names = re.findall(r"\{(\w+)\}", row.path)
    values = {name: create_object(name, cast, client_of, node) for name in names}
    path = f"/api/v1/{row.path.format(**values)}"
    content = json.dumps(OTHER_CHANGES.get(row.path, row.request_body))
    before = int(client.get(path)["ETag"].strip('"'))
    changed = client.generic(row.method, path, content, "application/json")
    assert changed.status_code < 300, changed.content
    record = AuditRecord.objects.latest("pk")
    now = int(client.get(path)["ETag"].strip('"'))
    assert record.before["version"] == before < record.after["version"] <= now
