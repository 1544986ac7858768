"""Backups by schedule: when one is due, which are deleted, and when the last one is old."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from appliance.activity.models import Event
from appliance.alarms.builtin import ensure_builtin_definitions
from appliance.alarms.models import AlarmDefinition
from appliance.alarms.state_findings import find_states
from appliance.audit.models import AuditRecord
from appliance.backups import schedule, services
from appliance.backups.age_keys import RECIPIENTS
from appliance.backups.destination import Folder
from appliance.backups.models import Backup
from appliance.backups.services import Outcome
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import BackupSettings

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def choose(**values: object) -> None:
    live_settings.replace({BackupSettings: BackupSettings.model_validate(values)})


def name_of(number: int) -> str:
    return f"busbar-20261126T{number:06}Z-0123abcd.age"


def outcome_of(number: int, hours_ago: float, **changes: object) -> Outcome:
    values = {
        "name": name_of(number),
        "destination": "/stored",
        "size_bytes": 1000,
        "sha256": "0" * 64,
        "version": "1",
        "rows": 10,
        "seconds": 1.0,
        "created_at": NOW - timedelta(hours=hours_ago),
    }
    return Outcome.model_validate(values | changes)


def record(number: int, hours_ago: float, **changes: object) -> Backup:
    return services.record_outcome(outcome=outcome_of(number, hours_ago, **changes), actor="system")


@pytest.fixture
def key() -> Iterator[None]:
    path = settings.DATA_DIR / RECIPIENTS
    path.write_text("age1\n")
    yield
    path.unlink()


@pytest.mark.parametrize(
    ("values", "hours_ago", "attempt_minutes_ago", "due"),
    [
        ({"destination": "/stored"}, None, None, True),
        ({"destination": "/stored"}, 25, None, True),
        ({"destination": "/stored"}, 23, None, False),
        ({"destination": "/stored"}, 25, 59, False),
        ({"destination": "/stored"}, 25, 61, True),
        ({"destination": "/stored", "interval_hours": 0}, None, None, False),
        ({"destination": "/stored", "interval_hours": 0.5}, 1, None, True),
        ({}, None, None, False),
    ],
    ids=["first", "late", "early", "tried", "again", "off", "short", "nowhere"],
)
def test_backup_is_due_after_the_interval(
    values: dict[str, object], hours_ago: float | None, attempt_minutes_ago: int | None, due: bool
) -> None:
    choose(**values)
    if hours_ago is not None:
        record(1, hours_ago)
    attempt = timedelta(minutes=attempt_minutes_ago) if attempt_minutes_ago else None
    assert schedule.is_due(NOW, NOW - attempt if attempt else None) is due


def test_old_or_missing_backup_raises_an_alarm(key: None) -> None:
    ensure_builtin_definitions()
    definition = AlarmDefinition.objects.get(name="Last backup is old")

    def message() -> str:
        return "".join(f.message for f in find_states(definition).values())

    assert message() == "There is no good backup yet."
    record(1, 49)
    assert message().startswith("The last good backup is of 20")
    record(2, 47)
    assert message() == ""
    definition.states = ["backup_old", "disk_low"]
    choose(old_after_hours=46)
    assert message().startswith("The last good backup is of 20")


def test_appliance_without_key_and_destination_has_no_old_backup() -> None:
    assert schedule.old_backup(NOW) == ""
    choose(destination="/stored")
    assert schedule.old_backup(NOW) == "There is no good backup yet."


def test_backups_beyond_the_number_to_keep_are_deleted(tmp_path: Path) -> None:
    text = str(tmp_path)
    for number in range(5):
        record(number, 10 - number, destination=text)
        (tmp_path / name_of(number)).touch()
    (tmp_path / name_of(9)).touch()  # of another appliance: no row names it
    record(8, 100, destination="/elsewhere")
    choose(keep_count=3)
    deleted = services.delete_old(Folder(tmp_path), text)
    assert set(deleted) == {name_of(0), name_of(1), name_of(2)}
    assert {p.name for p in tmp_path.iterdir()} == {name_of(3), name_of(4), name_of(9)}
    record(7, 0, destination=text, deleted=deleted)
    left = set(Backup.objects.values_list("name", flat=True))
    assert left == {name_of(n) for n in (3, 4, 7, 8)}
    assert Event.objects.filter(kind="backup.deleted").count() == 3
    assert AuditRecord.objects.filter(action="backup.deleted").count() == 3
