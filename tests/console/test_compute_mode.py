"""The compute mode of an allocation: chosen in the dialog, and shown on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Console
from tests.console.pictures import picture
from tests.system.conftest import Pool

pytestmark = pytest.mark.system


def test_chosen_mode_stands_on_the_allocation(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    console.open()
    page.get_by_role("button", name="Allocate GPUs").click()
    dialog = page.get_by_role("dialog")
    mode = dialog.get_by_label("Compute mode")
    share = dialog.get_by_role("spinbutton", name="Percent of each GPU")
    expect(mode).to_have_value("shared")
    mode.select_option("exclusive")
    expect(share).to_have_count(0)
    expect(dialog.get_by_text("Fits now")).to_be_visible()
    picture(page, screenshots, "compute-mode-exclusive")
    mode.select_option("capped")
    share.fill("30")
    page.keyboard.press("Tab")
    dialog.get_by_label("Name").fill("measured")
    dialog.get_by_role("button", name="The same as command and curl").click()
    command = "busbar allocation create --name measured -n 1 -p 30 --mode capped --lifetime 8h"
    expect(dialog.get_by_role("textbox", name="Command").first).to_have_value(command)
    picture(page, screenshots, "compute-mode-capped")
    dialog.get_by_role("button", name="Allocate", exact=True).click()
    dialog.get_by_role("link", name="Open measured").click()
    expect(page.get_by_role("main").get_by_text("capped; no running program")).to_be_visible()
    (allocation,) = pool.api.items("allocations", state="active")
    assert allocation["compute_mode"] == "capped"
    pool.api.request("DELETE", f"allocations/{allocation['id']}")
