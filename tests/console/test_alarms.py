"""Alarms in the console, in Chromium with a real stack."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Console
from tests.system.conftest import Pool

pytestmark = pytest.mark.system


def create_definition(page: Page) -> None:
    page.get_by_role("button", name="Create alarm definition").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Cordoned at once")
    dialog.get_by_label("Severity").select_option("critical")
    dialog.get_by_label("Object kind").select_option("node")
    dialog.get_by_label("Condition").select_option("state")
    dialog.get_by_label("States").fill("cordoned")
    dialog.get_by_label("Clear after seconds").fill("0")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_be_hidden()


def test_alarm_is_raised_acknowledged_and_cleared(console: Console, pool: Pool) -> None:
    page = console.page
    console.open("/alarms?tab=definitions")
    create_definition(page)
    node = pool.api.items("nodes")[0]["id"]
    pool.api.request("POST", f"nodes/{node}/cordon")
    try:
        page.goto(console.url + "/alarms")
        table = page.get_by_role("grid", name="Open alarms")
        row = table.get_by_role("row").filter(has_text="Cordoned at once")
        expect(row).to_contain_text("critical")
        badge = page.get_by_role("tree").get_by_text("1 alarm, critical")
        expect(badge.first).to_be_attached()
        row.get_by_role("button", name="Acknowledge").click()
        page.get_by_role("dialog").get_by_label("What is known about it").fill("new fan")
        page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
        expect(row).to_contain_text("acknowledged")
        row.get_by_role("link", name="Cordoned at once").click()
        history = page.get_by_role("grid", name="History")
        expect(history).to_contain_text("new fan")
    finally:
        pool.api.request("POST", f"nodes/{node}/uncordon")
    expect(history).to_contain_text("The condition no longer holds.")
