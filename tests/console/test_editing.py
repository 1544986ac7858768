"""Forms that edit an object, in Chromium with a real stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Console
from tests.console.pictures import picture
from tests.system.conftest import Pool

pytestmark = pytest.mark.system
LIFETIME = "Longest lifetime, seconds"


@contextmanager
def made(pool: Pool, collection: str, /, **body: Any) -> Iterator[dict[str, Any]]:
    row = pool.api.request("POST", collection, body)
    yield row
    pool.api.request("DELETE", f"{collection}/{row['id']}")


def open_edit(page: Page, name: str) -> None:
    page.get_by_role("button", name=f"Actions of {name}").click()
    page.get_by_role("menuitem", name="Edit").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def save(page: Page) -> None:
    page.get_by_role("button", name="Save").click()


def test_change_of_a_pool_by_others_is_shown_and_a_conflict_asks(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page, me = console.page, pool.api.request("GET", "me")["username"]
    with made(pool, "pools", name="physics", projects=["default"]) as row:
        path = f"pools/{row['id']}"
        console.open(f"/{path}?tab=configure")
        settings = page.get_by_role("main")
        expect(settings).to_contain_text("physics")
        pool.api.request("PATCH", path, {"max_idle_seconds": 45})
        expect(settings.get_by_text("45 s")).to_be_visible()  # the feed carries it
        open_edit(page, "physics")
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
        page.get_by_role("spinbutton", name=LIFETIME).fill("90")
        pool.api.request("PATCH", path, {"max_lifetime_seconds": 75, "max_idle_seconds": 50})
        save(page)
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text(f"Changed by {me}")).to_be_visible()
        expect(dialog.get_by_role("radio", name="Yours: 90")).to_be_checked()
        picture(page, screenshots, "conflict")
        dialog.get_by_role("radio", name="Theirs: 75").check()
        expect(page.get_by_role("spinbutton", name=LIFETIME)).to_have_value("75")
        dialog.get_by_role("radio", name="Yours: 90").check()
        save(page)
        expect(dialog).to_have_count(0)
        expect(settings.get_by_text("90 s")).to_be_visible()
        found = pool.api.request("GET", path)
        assert (found["max_lifetime_seconds"], found["max_idle_seconds"]) == (90, 50)
    assert [e for e in console.errors if "412" not in e] == []
    console.errors.clear()


def test_manager_of_one_pool_edits_what_is_theirs(
    viewer: Console, pool: Pool, screenshots: Path
) -> None:
    page = viewer.page
    binding = {"role": "operator", "user": "viewer", "pool": "lab"}
    with made(pool, "pools", name="lab") as row, made(pool, "role-bindings", **binding):
        viewer.open(f"/pools/{row['id']}?tab=configure")
        open_edit(page, "lab")
        expect(page.get_by_text("Settings that affect more than this pool")).to_be_visible()
        expect(page.get_by_label("Fallback pools")).to_have_count(0)
        page.get_by_role("spinbutton", name=LIFETIME).fill("90")
        picture(page, screenshots, "own-pool")
        save(page)
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("main").get_by_text("90 s")).to_be_visible()
        viewer.open("/account")
        expect(page.get_by_role("main")).to_contain_text("operator, Pool lab")


def test_permissions_of_a_department_show_its_bindings_and_privileges(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    binding = {"role": "operator", "user": "viewer", "department": "optics"}
    pool.token("viewer", "viewer")
    with made(pool, "departments", name="optics") as row, made(pool, "role-bindings", **binding):
        console.open(f"/departments/{row['id']}?tab=permissions")
        bindings = page.get_by_role("grid", name="Role bindings")
        expect(bindings.get_by_text("Department optics")).to_be_visible()
        privileges = page.get_by_role("grid", name="Privileges")
        expect(privileges.get_by_text("accounts.manage")).to_be_visible()
        picture(page, screenshots, "department-permissions")
