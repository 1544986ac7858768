"""Notices in the masthead: alarms without acknowledgement, and own tasks that failed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from remoting.cli.api import Api, Context
from tests.console.conftest import Console
from tests.console.pictures import picture
from tests.system.conftest import Pool

pytestmark = pytest.mark.system
ALARM = "Cordoned without notice"


@pytest.fixture(autouse=True)
def acknowledged(pool: Pool) -> None:
    """Acknowledge the alarms of earlier tests, and delete definitions that would raise more."""
    for definition in pool.api.items("alarm-definitions"):
        if not definition["is_builtin"]:
            pool.api.request("DELETE", f"alarm-definitions/{definition['id']}")
    for alarm in pool.api.items("alarms", open="true"):
        if alarm["state"] == "active":
            pool.api.request("POST", f"alarms/{alarm['id']}/acknowledge", {"text": ""})


@pytest.fixture
def alarm(pool: Pool) -> Iterator[str]:
    """An alarm of the node of this machine, which lasts as long as the test. Yields the node."""
    definition = {
        "name": ALARM,
        "severity": "critical",
        "object_kind": "node",
        "condition": "state",
        "states": ["cordoned"],
        "clear_after_seconds": 0,
    }
    made = pool.api.request("POST", "alarm-definitions", definition)
    node = pool.api.items("nodes")[0]
    pool.api.request("POST", f"nodes/{node['id']}/cordon")
    yield node["name"]
    pool.api.request("POST", f"nodes/{node['id']}/uncordon")
    pool.api.request("DELETE", f"alarm-definitions/{made['id']}")


def fail_task(console: Console, pool: Pool) -> None:
    """Let a task of the signed-in user fail: another user releases what it waits for."""
    context = Context(**json.loads(pool.context.read_text()))
    own = Api(replace(context, token=console.token))
    request = {"percent": 10, "selector": {"colour": "none"}, "allow_pending": True}
    waiting = own.request("POST", "allocations", request | {"name": "never"})
    pool.api.request("DELETE", f"allocations/{waiting['id']}")


def bell(page: Page, unread: int) -> Locator:
    found = page.get_by_role("button", name=f"Notifications, {unread} unread", exact=True)
    expect(found).to_be_visible()
    return found


def drawer(page: Page) -> Locator:
    return page.get_by_role("region", name="Notifications", exact=True)


def see_all(page: Page) -> None:
    """Close the drawer with what tests before this one have left in it."""
    button = page.get_by_role("button", name=re.compile("^Notifications, "))
    button.click()
    expect(drawer(page)).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer(page)).to_have_count(0)
    expect(button).to_be_focused()


def test_acknowledged_alarm_leaves_the_count_and_links_to_its_object(
    console: Console, alarm: str, screenshots: Path
) -> None:
    page = console.page
    console.open()
    see_all(page)
    bell(page, 1).click()
    notice = drawer(page).get_by_role("listitem").filter(has_text=ALARM)
    expect(notice).to_contain_text("critical")
    expect(notice).to_contain_text("since ")
    picture(page, screenshots, "notices")
    notice.get_by_role("link", name=alarm).click()
    expect(page).to_have_url(re.compile("/nodes/"))
    notice.get_by_role("button", name=re.compile("^Acknowledge")).click()
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    bell(page, 0)
    expect(drawer(page)).to_contain_text("Nothing to do")


def test_own_failed_task_is_a_notice_until_it_is_seen(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    console.open()
    see_all(page)
    fail_task(console, pool)
    bell(page, 1).focus()
    page.keyboard.press("Enter")
    notice = drawer(page).get_by_role("listitem").filter(has_text="Failed: Allocate")
    expect(notice).to_contain_text("released by")
    picture(page, screenshots, "notices-failure")
    notice.get_by_role("button", name=re.compile("^Log")).press("Enter")
    page.keyboard.press("Escape")  # closes the log, and not the drawer
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(notice).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer(page)).to_have_count(0)
    bell(page, 0)
    page.reload()
    bell(page, 0).click()
    expect(drawer(page)).to_contain_text("Nothing to do")
    picture(page, screenshots, "notices-empty")


def test_failed_task_of_another_user_is_no_notice(viewer: Console, pool: Pool) -> None:
    viewer.open()
    see_all(viewer.page)
    waiting = pool.api.request(
        "POST",
        "allocations",
        {"percent": 10, "selector": {"colour": "none"}, "name": "other", "allow_pending": True},
    )
    pool.api.request("DELETE", f"allocations/{waiting['id']}")
    tasks = viewer.page.get_by_role("grid", name="Recent tasks")
    expect(tasks.get_by_role("row").nth(1)).to_contain_text("failed")
    bell(viewer.page, 0)


def test_drawer_fits_a_phone_and_is_in_chinese(
    console: Console, alarm: str, screenshots: Path
) -> None:
    page = console.page
    console.open()
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("localStorage.setItem('busbar.language', 'zh')")
    page.reload()
    page.get_by_role("button", name=re.compile("^通知, [1-9]")).click()
    found = page.get_by_role("region", name="通知", exact=True)
    expect(found).to_be_in_viewport(ratio=1)
    acknowledge = found.get_by_role("button", name=re.compile("^确认"))
    # The bell may count a failed task of another test before the alarm is raised.
    expect(acknowledge).to_be_visible()
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) == 0
    page.screenshot(path=screenshots / "notices-phone-zh.png")
