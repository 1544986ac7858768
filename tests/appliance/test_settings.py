"""Settings in REST: values, limits, secrets, and their effect in this process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from appliance.accounts.models import User
from appliance.audit.models import AuditRecord
from appliance.configuration import storage
from appliance.configuration.models import StoredSettings
from appliance.configuration.serializers import represent
from appliance.db.writer import write_transaction
from appliance.fleet.certificates import load_authority
from appliance.runtime.live_settings import SECTIONS, current
from appliance.runtime.setting_sections import MailSettings, RetentionSettings
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
URL = "/api/v1/settings"


@pytest.fixture
def admin(cast: Cast, client_of: Clients) -> Any:
    return client_of(cast.admin)


def change(admin: Any, content: Any, **headers: str) -> Any:
    return admin.patch(URL, content, format="json", headers=headers)


def test_settings_have_the_values_of_the_environment_until_they_are_changed(admin: Any) -> None:
    found = body(admin.get(URL))
    assert found["retention"]["events_days"] == settings.ENVIRONMENT.retain_events_days
    assert found["changed"] == [] and set(SECTIONS) < set(found)


def test_change_is_in_force_and_shown_until_null_resets_it(admin: Any) -> None:
    changed = body(change(admin, {"retention": {"events_days": 7}}))
    assert changed["retention"]["events_days"] == 7
    assert changed["changed"] == ["retention.events_days"]
    assert current(RetentionSettings).events_days == 7
    assert body(admin.get(URL)) == changed
    reset = body(change(admin, {"retention": {"events_days": None}}))
    assert reset["changed"] == []
    assert current(RetentionSettings).events_days == settings.ENVIRONMENT.retain_events_days


def test_change_that_is_rolled_back_is_not_in_force(admin: Any) -> None:
    response = admin.patch(f"{URL}?dry_run=true", {"retention": {"events_days": 7}}, format="json")
    assert body(response)["retention"]["events_days"] == 7
    assert current(RetentionSettings).events_days == settings.ENVIRONMENT.retain_events_days
    assert not StoredSettings.objects.exists()


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        ({"retention": {"events_days": 0}}, "/retention/events_days"),
        ({"retention": {"event_days": 7}}, "/retention/event_days"),
        ({"retentions": {}}, "/retentions"),
        ({"mail": {"port": "25"}}, "/mail/port"),
        ({"mail": {"security": "ssl"}}, "/mail/security"),
        ({"mail": {"host": "a\nb"}}, "/mail/host"),
    ],
)
def test_wrong_names_and_values_are_refused_with_their_place(
    admin: Any, content: Any, pointer: str
) -> None:
    response = change(admin, content)
    assert response.status_code == 400
    assert [e["pointer"] for e in body(response)["errors"]] == [pointer]
    assert not StoredSettings.objects.exists()


@pytest.mark.parametrize("number", ["NaN", "1e999", "true", '"7"'])
def test_what_is_no_number_is_refused(admin: Any, number: str) -> None:
    text = f'{{"retention": {{"events_days": {number}}}}}'
    assert admin.patch(URL, text, content_type="application/json").status_code == 400


def test_values_that_contradict_each_other_are_refused(admin: Any) -> None:
    response = change(admin, {"mail": {"host": "mail.example.org"}})
    assert response.status_code == 400 and "sender" in body(response)["detail"]
    both = {"host": "mail.example.org", "sender": "busbar@example.org"}
    assert change(admin, {"mail": both}).status_code == 200
    response = change(admin, {"mail": {"security": "none", "username": "u"}})
    assert response.status_code == 400 and "protected" in body(response)["detail"]


def test_folder_for_backups_must_exist_when_it_is_set(admin: Any, tmp_path: Path) -> None:
    refused = change(admin, {"backup": {"destination": str(tmp_path / "missing")}})
    assert refused.status_code == 400
    assert f"There is no folder {tmp_path / 'missing'}" in body(refused)["detail"]
    (tmp_path / "file").touch()
    assert change(admin, {"backup": {"destination": str(tmp_path / "file")}}).status_code == 400
    (mounted := tmp_path / "mounted").mkdir()
    assert change(admin, {"backup": {"destination": str(mounted)}}).status_code == 200
    mounted.rmdir()
    again = {"destination": str(mounted), "keep_count": 3}
    assert change(admin, {"backup": again}).status_code == 200, "a form repeats what is stored"
    for other in ("sftp://keeper@backup.example.org/busbar", "", None):
        assert change(admin, {"backup": {"destination": other}}).status_code == 200


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts a file system")
def test_folder_for_backups_must_be_writable_when_it_is_set(admin: Any, tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,ro", "tmpfs", str(tmp_path)]
    subprocess.run(mount, check=True)
    try:
        refused = change(admin, {"backup": {"destination": str(tmp_path)}})
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert refused.status_code == 400
    assert f"cannot write to {tmp_path}" in body(refused)["detail"]


def test_secret_is_used_but_never_shown_stored_or_recorded(admin: Any) -> None:
    response = change(admin, {"mail": {"password": "hunter2hunter2"}})
    assert body(response)["mail"]["password_is_set"] is True
    assert "password" not in body(response)["mail"]
    assert current(MailSettings).password.get_secret_value() == "hunter2hunter2"
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM configuration_storedsettings")
        assert "hunter2" not in str(cursor.fetchall())
    record = AuditRecord.objects.get(object_kind="settings")
    assert record.after["hidden"] == ["mail.password"]
    assert "hunter2" not in str(vars(record)) and "hunter2" not in response.content.decode()
    change(admin, {"mail": {"password": ""}})
    assert body(admin.get(URL))["mail"]["password_is_set"] is False


@pytest.mark.parametrize(
    "receiver",
    [{"host": "evil.example"}, {"host": None}, {"port": 2525}, {"ca_certificates": None}],
)
def test_stored_password_is_not_sent_to_another_server(
    admin: Any, receiver: dict[str, Any], tmp_path: Path
) -> None:
    load_authority(tmp_path)
    mail = {
        "host": "mail.example.org",
        "sender": "busbar@example.org",
        "password": "hunter2hunter2",
        "ca_certificates": (tmp_path / "ca.pem").read_text(),
    }
    assert change(admin, {"mail": mail}).status_code == 200
    same = {"host": "mail.example.org", "timeout_seconds": 5}
    assert change(admin, {"mail": same}).status_code == 200
    refused = change(admin, {"mail": receiver})
    assert refused.status_code == 400 and "mail.password" in body(refused)["detail"]
    assert current(MailSettings).host == "mail.example.org"
    for again in ("another", "", None):
        assert change(admin, {"mail": mail}).status_code == 200
        assert change(admin, {"mail": receiver | {"password": again}}).status_code == 200
        assert current(MailSettings).password.get_secret_value() == (again or "")


def test_secret_of_another_key_counts_as_not_set(
    admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(admin, {"mail": {"password": "hunter2hunter2"}})
    monkeypatch.setattr(settings, "SECRET_KEY", "another")
    storage.load()
    assert represent(current(MailSettings))["password_is_set"] is False


def test_change_of_a_version_that_is_not_the_present_one_is_refused(admin: Any) -> None:
    tag = admin.get(URL).headers["ETag"]
    assert change(admin, {"retention": {"events_days": 7}}, if_match=tag).status_code == 200
    assert change(admin, {"retention": {"events_days": 8}}, if_match=tag).status_code == 412


def test_stored_value_that_is_no_longer_permitted_has_its_default(db: None) -> None:
    values = {"retention": {"events_days": -1, "tasks_days": 5, "gone": 1}, "old": {"x": 1}}
    write_transaction(lambda: StoredSettings(values=values).save())()
    storage.load()
    assert current(RetentionSettings).events_days == settings.ENVIRONMENT.retain_events_days
    assert current(RetentionSettings).tasks_days == 5


def test_every_setting_has_a_description_and_a_field(db: None) -> None:
    for section in SECTIONS.values():
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name} has no docstring"
