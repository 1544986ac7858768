"""Objects that another request deletes between their look-up and their use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from appliance.accounts.models import Project, User
from appliance.allocations import allocation_views
from appliance.allocations.models import Allocation
from appliance.db.writer import write_transaction
from appliance.inventory import sites
from appliance.inventory.models import Node, Site
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db(transaction=True)


def delete_before(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, model: type[Site | Allocation]
) -> None:
    """Let all rows vanish before a service of the module begins."""
    service = getattr(module, name)

    def run(**values: Any) -> Any:
        model.objects.all().delete()
        return service(**values)

    monkeypatch.setattr(module, name, run)


@pytest.mark.parametrize(
    ("method", "service"), [("patch", "update_site"), ("delete", "delete_site")]
)
def test_change_of_a_site_that_was_deleted_meanwhile_answers_not_found(
    cast: Cast,
    client_of: Clients,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    service: str,
) -> None:
    site = Site.objects.create(name="hall")
    delete_before(monkeypatch, sites, service, Site)
    client = client_of(cast.olga)
    client.raise_request_exception = False
    content = {"notes": "dusty"} if method == "patch" else None
    response = getattr(client, method)(f"/api/v1/sites/{site.pk}", content, format="json")
    assert (response.status_code, body(response).get("code")) == (404, "not_found")


def test_deletion_of_a_site_that_is_used_meanwhile_answers_conflict(
    cast: Cast,
    client_of: Clients,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site.objects.create(name="hall")

    @write_transaction
    def delete_site(**_: Any) -> None:
        Project.objects.create(name="late", department_id=uuid4())

    monkeypatch.setattr(sites, "delete_site", delete_site)
    response = client_of(cast.olga).delete(f"/api/v1/sites/{site.pk}")
    assert (response.status_code, body(response).get("code")) == (409, "conflict")
    assert "deleted during the request" in caplog.text
    assert [r.levelname for r in caplog.records if "deleted during" in r.message] == ["ERROR"]


def test_release_of_an_allocation_that_was_deleted_meanwhile_answers_not_found(
    cast: Cast,
    client_of: Clients,
    add_node: Callable[..., Node],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = client_of(cast.alice)
    made = body(
        client.post("/api/v1/allocations", {"gpu_count": 16, "allow_pending": True}, format="json")
    )
    delete_before(monkeypatch, allocation_views, "release", Allocation)
    client.raise_request_exception = False
    response = client.delete(f"/api/v1/allocations/{made['id']}")
    assert (response.status_code, body(response).get("code")) == (404, "not_found")
