"""Actions of rows without a page of their own, in Chromium with a real stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Request, expect

from tests.console.conftest import Console
from tests.system.conftest import Pool

pytestmark = pytest.mark.system
ACTIONS = "/api/v1/actions"


@contextmanager
def quota_of_department(pool: Pool, name: str) -> Iterator[None]:
    department = pool.api.request("POST", "departments", {"name": name})
    body = {"subject_kind": "department", "subject": name, "limit_gpus": 2}
    quota = pool.api.request("POST", "quotas", body)
    yield
    pool.api.request("DELETE", f"quotas/{quota['id']}")
    pool.api.request("DELETE", f"departments/{department['id']}")


def test_menu_of_a_quota_tells_a_viewer_why_it_cannot_be_changed(
    viewer: Console, pool: Pool
) -> None:
    page = viewer.page
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.url.endswith(ACTIONS):
            asked.append(request.url)

    page.on("request", note)
    with quota_of_department(pool, "optics"):
        viewer.open("/pools?tab=quotas")
        menu = page.get_by_role("button", name="Actions of optics")
        expect(menu).to_be_visible()
        assert asked == []
        menu.press("Enter")
        edit = page.get_by_role("menuitem", name="Edit")
        expect(edit).to_be_disabled()
        expect(edit).to_contain_text("pools.manage")
        menu.press("ArrowDown")
        expect(edit).to_be_focused()  # the reason is reachable by keyboard
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.remove_listener("request", note)
    assert asked  # again when an event has changed a quota


def test_administrator_revokes_tokens_in_the_bulk_bar(console: Console, pool: Pool) -> None:
    page = console.page
    for name in ("nightly", "weekly"):
        pool.api.request("POST", "tokens", {"name": name})
    console.open("/access?tab=tokens")
    table = page.get_by_role("grid", name="Tokens")
    for name in ("nightly", "weekly"):
        table.get_by_role("row").filter(has_text=name).get_by_role("checkbox").check()
    page.get_by_role("button", name="2 selected").click()
    page.get_by_role("menuitem", name="Revoke").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Programs that use the token are refused from now on.")
    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog).to_have_count(0)
    expect(table.get_by_text("nightly")).to_have_count(0)
    expect(table.get_by_text("weekly")).to_have_count(0)
    assert not {"nightly", "weekly"} & {t["name"] for t in pool.api.items("tokens")}
