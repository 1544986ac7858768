"""busbar settings and busbar notifications."""

from __future__ import annotations

import json

import pytest

from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import MailSettings, RetentionSettings
from tests.appliance.commands_in_process import Busbar


def test_setting_is_listed_changed_and_reset(busbar: Busbar) -> None:
    assert busbar("settings", "set", "retention.events_days", "7").status == 0
    assert current(RetentionSettings).events_days == 7
    (line,) = [row for row in busbar("settings", "list").out.splitlines() if "events_days" in row]
    assert line.split() == ["retention.events_days", "7", "True"]
    assert busbar("settings", "reset", "retention.events_days").status == 0
    assert "events_days" in busbar("settings", "list", "retention").out
    assert json.loads(busbar("settings", "list", "-o", "json").out)["changed"] == []


def test_password_comes_from_standard_input_and_is_not_shown(busbar: Busbar) -> None:
    done = busbar("settings", "set", "mail.password", "-", stdin="hunter2hunter2\n")
    assert (done.status, done.out) == (0, "")
    assert current(MailSettings).password.get_secret_value() == "hunter2hunter2"
    listed = busbar("settings", "list", "mail").out
    assert "hunter2" not in listed and "mail.password_is_set" in listed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("set", "retention.event_days", "7"), 'Did you mean "events_days"?'),
        (("set", "retention", "7"), "expected SECTION.NAME"),
        (("set", "retention.events_days"), "or - to read it"),
        (("set", "retention.events_days", "many"), "A valid number is required"),
        (("list", "absent"), "absent is no section"),
        (("test-mail", "a@example.org"), "no mail server is set up"),
    ],
)
def test_wrong_settings_are_refused(busbar: Busbar, line: tuple[str, ...], message: str) -> None:
    done = busbar("settings", *line)
    assert done.status in (2, 3, 4) and message in done.err, done


def test_notifications_are_chosen(busbar: Busbar) -> None:
    shown = json.loads(busbar("notifications", "--no-start", "-o", "json").out)
    assert (shown["start"], shown["reclaim"]) == (False, True)
    assert json.loads(busbar("notifications", "-o", "json").out) == shown
