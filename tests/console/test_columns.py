"""The choice of columns of a table: it is remembered, goes back, and works by keyboard."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.console.conftest import Console
from tests.console.pictures import picture

pytestmark = pytest.mark.system

PLAIN = re.compile("^Columns: All nodes$")
NARROWED = re.compile(r"^Columns, 7 of 8: All nodes$")
ALL = ["Name", "State", "GPUs", "Site", "Driver", "Agent", "Labels", "Last seen"]
PHONE: ViewportSize = {"width": 390, "height": 844}


def heads(page: Page, table: str = "All nodes") -> list[str]:
    """Return the labels of the shown columns, without those for selection and actions."""
    grid = page.get_by_role("grid", name=table)
    expect(grid).to_be_visible()
    return grid.locator("thead th .pf-v6-c-table__text").all_inner_texts()


def menu(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Columns: All nodes")


def open_menu(page: Page) -> Locator:
    page.get_by_role("button", name=re.compile("^Columns.*: All nodes$")).click()
    expect(menu(page)).to_be_visible()
    return menu(page)


def test_hidden_column_stays_hidden_after_reload_and_default_shows_it_again(
    console: Console,
) -> None:
    page = console.page
    console.open("/fleet?tab=nodes")
    assert heads(page) == ALL
    open_menu(page).get_by_role("checkbox", name="Driver").uncheck()
    without = [head for head in ALL if head != "Driver"]
    assert heads(page) == without
    page.reload()
    assert heads(page) == without
    expect(page.get_by_role("button", name=NARROWED)).to_be_visible()
    expect(open_menu(page).get_by_role("checkbox", name="Driver")).not_to_be_checked()
    menu(page).get_by_role("button", name="Default columns").click()
    assert heads(page) == ALL
    page.reload()
    assert heads(page) == ALL


def test_name_cannot_be_hidden_and_other_tables_keep_their_columns(console: Console) -> None:
    page = console.page
    console.open("/fleet?tab=nodes")
    boxes = open_menu(page)
    expect(boxes.get_by_role("checkbox", name="Name, always shown")).to_be_disabled()
    for name in ALL[1:]:
        boxes.get_by_role("checkbox", name=name, exact=True).uncheck()
    assert heads(page) == ["Name"]
    page.keyboard.press("Escape")
    expect(boxes).to_have_count(0)
    console.open("/fleet?tab=gpus")
    assert len(heads(page, "All GPUs")) == 7


def test_keyboard_opens_chooses_and_closes_the_menu(console: Console) -> None:
    page = console.page
    console.open("/fleet?tab=nodes")
    button = page.get_by_role("button", name=PLAIN)
    button.focus()
    page.keyboard.press("Enter")
    first = menu(page).get_by_role("checkbox", name="State")
    expect(first).to_be_focused()
    page.keyboard.press("Space")
    assert "State" not in heads(page)
    page.keyboard.press("Shift+Tab")  # from the first box to the last control
    expect(menu(page).get_by_role("button", name="Default columns")).to_be_focused()
    page.keyboard.press("Enter")
    assert heads(page) == ALL
    page.keyboard.press("Escape")
    expect(menu(page)).to_have_count(0)
    expect(button).to_be_focused()


def test_menu_is_whole_and_accessible_in_both_themes(console: Console, screenshots: Path) -> None:
    page = console.page
    console.open("/fleet?tab=nodes")
    open_menu(page).get_by_role("checkbox", name="Driver").uncheck()
    expect(menu(page).get_by_role("button", name="Default columns")).to_be_in_viewport(ratio=1)
    picture(page, screenshots, "columns")
    page.set_viewport_size(PHONE)
    expect(menu(page)).to_be_in_viewport(ratio=1)
    expect(menu(page).get_by_role("button", name="Default columns")).to_be_in_viewport(ratio=1)
    picture(page, screenshots, "columns-phone")


def test_menu_is_in_chinese(console: Console, screenshots: Path) -> None:
    page = console.page
    console.open()
    page.evaluate("localStorage.setItem('busbar.language', 'zh')")
    page.goto(console.url + "/fleet?tab=nodes")
    page.get_by_role("button", name=re.compile("^列")).click()
    boxes = page.get_by_role("dialog", name="列:所有节点")
    boxes.get_by_role("checkbox", name="站点").uncheck()
    expect(boxes.get_by_role("button", name="默认列")).to_be_visible()
    picture(page, screenshots, "columns-zh")
