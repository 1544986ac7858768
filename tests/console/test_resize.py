"""The edge of a partition in the bar of its GPU: resized by keyboard and by pointer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Console, start_program
from tests.console.pictures import picture
from tests.console.test_console import open_gpu
from tests.system.conftest import Pool

pytestmark = pytest.mark.system


def open_edge(console: Console, percent: int) -> Locator:
    """Open the page of the GPU and return the edge of its only partition, which has a size."""
    open_gpu(console)
    edge = console.page.get_by_role("main").get_by_role("slider")
    expect(edge).to_have_attribute("aria-valuenow", str(percent))
    return edge


def percent_of(pool: Pool) -> int:
    (allocation,) = pool.api.items("allocations", state="active")
    return int(allocation["percent"])


def drag(page: Page, edge: Locator, by_bar_share: float) -> None:
    """Drag the edge by a share of the bar's width, and drop it."""
    edge.hover()  # waits until the edge neither moves nor lies under a dialog
    box = edge.bounding_box()
    bar = edge.locator("xpath=ancestor::ul").bounding_box()
    assert box and bar
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + bar["width"] * by_bar_share / 2, y)
    page.mouse.move(x + bar["width"] * by_bar_share, y)
    page.mouse.up()


def test_keyboard_resizes_after_confirmation_and_escape_takes_it_back(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    console.open()
    program = start_program(pool, 25)
    edge = open_edge(console, 25)
    expect(edge).to_have_attribute("aria-valuemax", "100")
    edge.focus()
    page.keyboard.press("ArrowLeft")
    expect(edge).to_have_attribute("aria-valuenow", "24")
    page.keyboard.press("Escape")
    expect(edge).to_have_attribute("aria-valuenow", "25")
    for key in ("PageUp", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("From 25 %")
    call = dialog.get_by_label("Command")
    expect(call).to_have_value(re.compile(r'-X PATCH .*"percent":36.*/api/v1/allocations/'))
    assert console.violations() == []
    page.screenshot(path=screenshots / "resize-light.png")
    assert percent_of(pool) == 25, "nothing changes before the confirmation"
    dialog.get_by_role("button", name="Resize").click()
    expect(page.get_by_role("list", name="Results")).to_contain_text("Resize: gpu_demo")
    pool.wait("the new size", lambda: percent_of(pool) == 36)
    expect(edge).to_have_attribute("aria-valuenow", "36")
    assert program.poll() is None, "the program goes on"


def test_size_changed_by_others_asks_and_is_saved_in_their_version(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page, me = console.page, pool.api.request("GET", "me")["username"]
    console.open()
    start_program(pool, 25)
    edge = open_edge(console, 25)
    edge.focus()
    for key in ("PageUp", "Enter"):
        page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("From 25 %")
    (allocation,) = pool.api.items("allocations", state="active")
    pool.api.request("PATCH", f"allocations/{allocation['id']}", {"percent": 20})
    dialog.get_by_role("button", name="Resize").click()
    expect(dialog.get_by_text(f"Changed by {me}")).to_be_visible()
    expect(dialog.get_by_role("radio", name="Yours: 35")).to_be_checked()
    picture(page, screenshots, "resize-conflict")
    dialog.get_by_role("radio", name="Theirs: 20").check()
    expect(dialog.get_by_role("button", name="Resize")).to_be_disabled()
    dialog.get_by_role("radio", name="Yours: 35").check()
    dialog.get_by_role("button", name="Resize").click()
    expect(dialog).to_have_count(0)
    pool.wait("the new size", lambda: percent_of(pool) == 35)
    assert [e for e in console.errors if "412" not in e] == []
    console.errors.clear()


def test_pointer_resizes_and_cancel_keeps_the_size(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    console.open()
    page.get_by_role("button", name="Use dark theme").click()
    start_program(pool, 40)
    edge = open_edge(console, 40)
    drag(page, edge, -0.2)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile(r"From 40 % .* to (19|20|21) %"))
    assert console.violations("color-contrast") == []
    page.screenshot(path=screenshots / "resize-dark.png")
    dialog.get_by_role("button", name="Cancel").click()
    expect(edge).to_have_attribute("aria-valuenow", "40")
    drag(page, edge, 0.3)
    expect(dialog).to_contain_text(re.compile(r"to (69|70|71) %"))
    dialog.get_by_role("button", name="Resize").click()
    expect(dialog).to_have_count(0)
    pool.wait("the new size", lambda: percent_of(pool) in (69, 70, 71))


def test_refusal_of_the_server_is_shown_in_the_dialog(console: Console, pool: Pool) -> None:
    page = console.page
    console.open()
    limit = {"subject_kind": "project", "subject": "default", "limit_gpus": 0.5}
    quota = pool.api.request("POST", "quotas", limit)
    try:
        start_program(pool, 30)
        edge = open_edge(console, 30)
        edge.focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        with page.expect_response(lambda r: r.request.method == "PATCH") as sent:
            dialog.get_by_role("button", name="Resize").click()
        assert sent.value.status >= 400
        expect(dialog.get_by_text(sent.value.json()["detail"])).to_be_visible()
        assert percent_of(pool) == 30
        console.errors.clear()  # Chromium logs the status of the refusal
    finally:
        pool.api.request("DELETE", f"quotas/{quota['id']}")


def test_viewer_sees_why_the_edge_does_not_move(viewer: Console, pool: Pool) -> None:
    page = viewer.page
    viewer.open()
    start_program(pool, 30)
    edge = open_edge(viewer, 30)
    expect(edge).to_have_attribute("aria-disabled", "true")
    edge.focus()
    page.keyboard.press("ArrowRight")
    expect(edge).to_have_attribute("aria-valuenow", "30")
    expect(page.get_by_role("tooltip")).to_contain_text("allocations.create")
