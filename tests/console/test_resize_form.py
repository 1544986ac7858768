"""The form that resizes an allocation, with its compute mode, and the progress on its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Console
from tests.console.pictures import picture
from tests.system.conftest import Pool
from tests.system.test_resize import program

pytestmark = pytest.mark.system
MIB = 1 << 20


def allocate(pool: Pool, **request: Any) -> dict[str, Any]:
    held = {"hold": "lifetime", "lifetime_seconds": 600}
    return dict(pool.api.request("POST", "allocations", request | held, wait="60"))


def test_form_changes_the_mode_alone_or_with_a_size(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    allocation = allocate(pool, name="tuned", percent=30)
    console.open(f"/allocations/{allocation['id']}")
    main, dialog = page.get_by_role("main"), page.get_by_role("dialog")
    main.get_by_role("button", name="Resize", exact=True).click()
    mode, command = dialog.get_by_label("Compute mode"), dialog.get_by_label("Command")
    expect(mode).to_have_value("shared")
    expect(dialog.get_by_role("button", name="Resize")).to_be_disabled()
    picture(page, screenshots, "resize-form")
    mode.select_option("exclusive")
    expect(dialog.get_by_label("Share in percent")).to_have_count(0)
    picture(page, screenshots, "resize-form-exclusive")
    mode.select_option("capped")
    assert '--json \'{"compute_mode":"capped"}\'' in command.input_value()
    dialog.get_by_role("button", name="Resize").click()
    expect(dialog).to_have_count(0)
    expect(main.get_by_text("capped; no running program")).to_be_visible()
    main.get_by_role("button", name="Resize", exact=True).click()
    mode.select_option("guaranteed")
    dialog.get_by_label("Share in percent").fill("40")
    dialog.get_by_role("button", name="Resize").click()
    expect(main.get_by_text("guaranteed; no running program")).to_be_visible()
    changed = pool.api.request("GET", f"allocations/{allocation['id']}")
    assert (changed["percent"], changed["granted_compute_mode"]) == (40, "guaranteed")


def test_mode_that_waits_is_shown_with_the_one_in_force(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page, gpus = console.page, len(pool.api.items("gpus"))
    allocation = allocate(pool, name="tuned", percent=30, compute_mode="capped")
    allocate(pool, name="neighbour", percent=50, gpu_count=gpus)
    path = f"allocations/{allocation['id']}"
    pool.api.request("PATCH", path, {"compute_mode": "exclusive"})
    console.open(f"/{path}")
    main = page.get_by_role("main")
    expect(main.get_by_text("The resize adds 70 %").first).to_be_visible()
    expect(main.get_by_text("100 %, exclusive")).to_be_visible()
    expect(main.get_by_text("capped; no running program")).to_be_visible()
    picture(page, screenshots, "resize-mode-waits")
    main.get_by_role("button", name="Withdraw resize").click()
    expect(main.get_by_text("The resize adds 70 %")).to_have_count(0)
    kept = pool.api.request("GET", path)
    assert (kept["percent"], kept["compute_mode"], kept["resize"]) == (30, "capped", None)


def test_memory_that_was_returned_is_shown(console: Console, pool: Pool, screenshots: Path) -> None:
    page = console.page
    with program(pool, "-m", "1GiB", "-p", "10") as p:
        held = [p.allocate(256 * MIB).removeprefix("ok ") for _ in range(3)]
        p.resize(memory_bytes=256 * MIB)
        console.open(f"/allocations/{p.allocation_id}")
        main = page.get_by_role("main")
        expect(main.get_by_text("of 768 MiB returned")).to_be_visible()
        assert p.tell(f"release {held.pop()}") == "ok"
        pool.wait("the memory", lambda: p.allocation["resize"]["over_bytes"] < 512 * MIB)
        picture(page, screenshots, "resize-shrinking")
        for number in held:
            assert p.tell(f"release {number}") == "ok"
        expect(main.get_by_text("of 768 MiB returned")).to_have_count(0)
