"""Certificates that were issued after the backup from which the appliance was restored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from appliance.activity.models import Event
from appliance.api.errors import ApplianceError
from appliance.fleet import auth
from appliance.fleet.models import NodeCertificate
from appliance.inventory.models import Node, NodeState
from appliance.runtime import restored
from tests.appliance.conftest import Cast
from tests.appliance.test_certificate_renewal import Clients, Machine

pytestmark = pytest.mark.django_db
REFUSED = "not one of a node that is enrolled here"


@pytest.fixture
def machine(cast: Cast, client_of: Clients) -> Machine:
    return Machine(client_of(None))


@pytest.fixture
def marker() -> Iterator[Path]:
    path = settings.DATA_DIR / restored.NAME
    yield path
    path.unlink(missing_ok=True)


def lose(machine: Machine, backup_at: datetime) -> None:
    """Forget the certificates of a machine that were issued after a backup."""
    NodeCertificate.objects.filter(created_at__gt=backup_at).delete()
    NodeCertificate.objects.update(superseded_at=None)
    restored.write(settings.DATA_DIR, "0123abcd", backup_at)


def admit(machine: Machine) -> None:
    assert auth.admit_agent(machine.serial, machine.content["agent_pem"]) == machine.node.pk


def test_certificate_issued_after_the_backup_is_adopted(machine: Machine, marker: Path) -> None:
    machine.connect()
    NodeCertificate.objects.update(created_at=timezone.now() - timedelta(hours=20))
    old, backup_at = machine.copy(), timezone.now().replace(microsecond=0)
    assert machine.renew().status_code == 201
    lose(machine, backup_at)
    with pytest.raises(ApplianceError, match=REFUSED):
        auth.admit_agent(machine.serial)
    admit(machine)
    assert machine.generation == 2
    assert Event.objects.filter(kind="node.certificate_adopted").count() == 1
    assert NodeCertificate.objects.get(pk=old.serial).superseded_at is not None
    admit(machine)
    assert machine.renew().status_code == 201, "it can be renewed like any other"


def test_renewal_with_a_certificate_issued_after_the_backup_succeeds(
    machine: Machine, marker: Path
) -> None:
    NodeCertificate.objects.update(created_at=timezone.now() - timedelta(hours=20))
    backup_at = timezone.now().replace(microsecond=0)
    assert machine.renew().status_code == 201
    lose(machine, backup_at)
    assert machine.renew().status_code == 201


@pytest.mark.parametrize("case", ["not restored", "before the backup", "revoked", "removed node"])
def test_other_certificate_is_not_adopted(machine: Machine, marker: Path, case: str) -> None:
    backup_at = timezone.now().replace(microsecond=0)
    if case == "removed node":
        Node.objects.update(state=NodeState.REMOVED)
    if case == "revoked":
        NodeCertificate.objects.update(revoked_at=timezone.now())
    else:
        NodeCertificate.objects.all().delete()
    if case != "not restored":
        ahead = timedelta(hours=1) if case == "before the backup" else -timedelta(hours=1)
        restored.write(settings.DATA_DIR, "0123abcd", backup_at + ahead)
    with pytest.raises(ApplianceError, match=REFUSED):
        admit(machine)


def test_certificate_older_than_an_adopted_one_is_not_adopted(
    machine: Machine, marker: Path
) -> None:
    """A copy of the node's files from before its last renewal does not replace the node."""
    machine.connect()
    NodeCertificate.objects.update(created_at=timezone.now() - timedelta(hours=20))
    backup_at = timezone.now() - timedelta(hours=1)
    assert machine.renew().status_code == 201
    NodeCertificate.objects.filter(pk=machine.serial).update(
        serial="newer", created_at=timezone.now() + timedelta(seconds=30)
    )
    restored.write(settings.DATA_DIR, "0123abcd", backup_at)
    with pytest.raises(ApplianceError, match=REFUSED):
        admit(machine)
