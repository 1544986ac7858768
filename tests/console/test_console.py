"""The console in Chromium with a real stack and running programs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, TimeoutError, expect

from deploy.supervisor import ROOT, wait_for
from remoting.cli.api import Context, save_context
from tests.console.conftest import DEMO, PASSWORD, WORK_SECONDS, Console, start_program
from tests.console.pictures import violations_in_both_themes
from tests.system.conftest import Pool

pytestmark = pytest.mark.system

PAGES = (
    "/",
    "/mine",
    "/fleet",
    "/fleet?tab=gpus",
    "/allocations",
    "/pools",
    "/pools?tab=quotas",
    "/events",
    "/alarms",
    "/alarms?tab=cleared",
    "/alarms?tab=definitions",
    "/access",
    "/access?tab=bindings",
    "/access?tab=tokens",
    "/access?tab=audit",
    "/settings",
    "/settings?tab=keys",
    "/account",
)


def segments(page: Page, gpu_index: int = 0) -> Locator:
    """Return the partitions in the bar of a GPU, without its free segment."""
    bar = page.get_by_role("list", name=re.compile(f"Partitions of GPU {gpu_index} of"))
    return bar.locator("[data-partition]")


def open_gpu(console: Console, index: int = 0) -> None:
    console.page.get_by_role("main").get_by_role("link", name=re.compile(f"GPU {index}")).click()
    expect(
        console.page.get_by_role("heading", level=1, name=re.compile(f"GPU {index}"))
    ).to_be_visible()


def test_first_login_requires_new_password(page: Page, pool: Pool) -> None:
    one_time = (pool.stack.appliance_data / "initial-admin-password").read_text().strip()
    page.goto(pool.stack.url)
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Wrong username or password.")).to_be_visible()
    page.get_by_label("Password", exact=True).fill(one_time)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("New password").fill("short")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("too short")).to_be_visible()
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    cookies = [c for c in page.context.cookies() if c["name"] == "__Host-busbar"]
    assert (
        len(cookies) == 1
        and cookies[0]["httpOnly"]
        and cookies[0]["secure"]
        and cookies[0]["sameSite"] == "Strict"
    )

    page.get_by_role("button", name="admin").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    again = page.request.get(
        pool.stack.url + "/api/v1/me", headers={"Cookie": f"__Host-busbar={cookies[0]['value']}"}
    )
    assert again.status == 401, "sign-out must revoke the token"


def test_partitions_appear_move_and_disappear_with_programs(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    console.open()
    open_gpu(console)
    expect(segments(page)).to_have_count(0)
    first = start_program(pool, 40)
    expect(segments(page)).to_have_count(1)
    second = start_program(pool, 35, pause_ms=50)  # its launches are counted below
    expect(segments(page)).to_have_count(2)
    later = segments(page).nth(1)
    expect(later).to_have_attribute("aria-label", re.compile("gpu_demo 35 %, local,.*active"))
    partition, before = later.get_attribute("data-partition"), later.bounding_box()

    # Utilisation and launch counts are updated while the programs run.
    reading = page.locator("[data-reading='Utilisation']")
    expect(reading).not_to_have_text(re.compile("no samples|^0 %"))
    kernels = page.get_by_role("grid", name="Running programs").locator("[data-launches]").first
    launched = int(kernels.get_attribute("data-launches") or "0")
    expect(kernels).not_to_have_attribute("data-launches", str(launched))
    page.screenshot(path=screenshots / "gpu-light.png")

    # The first program ends; the second partition moves to its place.
    first.terminate()
    expect(segments(page)).to_have_count(1)
    moved = page.locator(f"[data-partition='{partition}']")
    expect(moved).to_be_visible()
    moved_left = (
        "([id, x]) => document.querySelector(`[data-partition='${id}']`)"
        ".getBoundingClientRect().x < x - 50"
    )
    page.wait_for_function(moved_left, arg=[partition, before["x"] if before else 0])
    assert second.poll() is None

    second.terminate()
    expect(segments(page)).to_have_count(0)
    expect(page.get_by_role("treeitem").filter(has_text="gpu_demo")).to_have_count(0)


def test_program_with_unsupported_call_is_marked(
    console: Console, pool: Pool, screenshots: Path, compiled: Callable[[str], Path]
) -> None:
    page = console.page
    console.open()
    program = pool.start(30, str(compiled("refused")), str(WORK_SECONDS))
    open_gpu(console)
    mark = page.get_by_role("grid", name="Running programs").get_by_text("cuParamSetTexRef")
    expect(mark).to_be_visible()
    mark.hover()
    expect(page.get_by_role("tooltip")).to_have_text("Not supported yet: cuParamSetTexRef")
    page.screenshot(path=screenshots / "refused-light.png")
    page.get_by_role("button", name="Use dark theme").click()
    mark.hover()
    page.screenshot(path=screenshots / "refused-dark.png")
    page.get_by_role("heading", level=1).hover()
    expect(page.get_by_role("tooltip")).to_have_count(0)
    assert console.violations() == []
    program.terminate()


def allocate_in_dialog(page: Page, screenshots: Path) -> str:
    """Return the id of an allocation that is made in the dialog."""
    page.get_by_role("button", name="Allocate GPUs").click()
    page.get_by_label("Name").fill("from-the-console")
    page.get_by_role("spinbutton", name="Percent of each GPU").fill("45")
    page.keyboard.press("Tab")
    expect(page.get_by_text(re.compile("Fits now: .* GPU [01]"))).to_be_visible()
    page.get_by_role("button", name="The same as command and curl").click()
    command_line = "busbar allocation create --name from-the-console -n 1 -p 45 --lifetime 8h"
    expect(page.get_by_role("textbox", name="Command").first).to_have_value(command_line)
    page.screenshot(path=screenshots / "allocate-light.png")
    page.get_by_role("button", name="Allocate", exact=True).click()
    expect(page.get_by_text(re.compile("active: GPU [01] of"))).to_be_visible()
    line = page.get_by_role("textbox", name="Command").first.input_value()
    page.get_by_role("button", name="Close").last.click()
    return line.split()[3]


def visible_memory(console: Console, pool: Pool, allocation: str, folder: Path) -> int:
    """Return the bytes of memory that a program sees that runs in the allocation."""
    context = save_context(
        Context(pool.stack.url, console.token, (pool.stack.appliance_data / "ca.pem").read_text()),
        folder / "context.json",
    )
    env = os.environ | {"BUSBAR_CONTEXT": str(context), "PYTHONPATH": str(ROOT)}
    busbar = [sys.executable, "-m", "remoting.cli.main"]
    command = [*busbar, "run", "--allocation", allocation, "--", DEMO, "memory"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["total_bytes"])


def test_allocation_from_dialog_outlives_its_page(
    console: Console, pool: Pool, screenshots: Path, tmp_path: Path
) -> None:
    page = console.page
    console.open()
    allocation = allocate_in_dialog(page, screenshots)
    expect(page.locator("[data-partition]")).to_have_count(1)
    assert pool.api.request("GET", f"allocations/{allocation}")["hold"] == "lifetime"
    total_bytes = visible_memory(console, pool, allocation, tmp_path)
    held = pool.api.request("GET", f"allocations/{allocation}")
    assert total_bytes == held["partitions"][0]["memory_bytes"], (
        "the program must use the partition of this allocation"
    )
    assert held["state"] == "active" and held["owner"] == "administrator", (
        "the end of the program must not release an existing allocation"
    )
    page.get_by_role("link", name="Allocations").click()
    page.get_by_role("button", name="Release from-the-console").click()
    dialog = page.get_by_role("dialog", name="Release from-the-console?")
    expect(dialog.get_by_text("No program runs there now.")).to_be_visible()
    dialog.get_by_role("button", name="Release").click()
    expect(page.get_by_role("grid", name="Ended").get_by_text("from-the-console")).to_be_visible()


def test_dialog_shows_why_a_request_can_never_start(console: Console) -> None:
    page = console.page
    console.open()
    page.get_by_role("button", name="Allocate GPUs").click()
    page.get_by_label("Number of GPUs").fill("3")
    page.get_by_role("button", name="Allocate", exact=True).click()
    expect(
        page.get_by_role("dialog")
        .get_by_text("Requested 3 × 25 %, but pool default has 2 matching of 2 registered GPUs.")
        .first
    ).to_be_visible()
    page.keyboard.press("Escape")
    refusals = [e for e in console.errors if "409 (Conflict)" in e]  # of Chromium, for the request
    assert refusals
    console.errors[:] = [e for e in console.errors if e not in refusals]


def test_queued_request_is_cancelled_in_task_pane(console: Console, pool: Pool) -> None:
    console.open()
    waiting = pool.api.request(
        "POST",
        "allocations",
        {"percent": 10, "selector": {"colour": "none"}, "name": "never", "allow_pending": True},
    )
    assert waiting["state"] == "queued"
    row = console.page.get_by_role("grid", name="Recent tasks").get_by_role("row").nth(1)
    expect(row).to_contain_text("colour=none")  # the newest task is first
    row.get_by_role("button", name="Cancel task Allocate").click()
    console.page.get_by_role("dialog").get_by_role("button", name="Cancel task").click()
    expect(row.get_by_text("cancelled", exact=True)).to_be_visible()
    expect(row.get_by_role("button", name=re.compile("^Cancel"))).to_have_count(0)
    assert pool.api.request("GET", f"allocations/{waiting['id']}")["state"] == "released"


def test_capacity_is_grouped_by_pool_and_by_node(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    console.open("/")
    table = console.page.get_by_role("grid", name="Capacity, in GPUs and memory")
    expect(table.get_by_role("rowheader", name="default")).to_be_visible()
    program = start_program(pool, 50)
    expect(
        table.get_by_role("row").filter(has_text="default").get_by_role("gridcell").nth(2)
    ).to_contain_text("0.5")
    console.page.screenshot(path=screenshots / "capacity.png")
    console.page.get_by_role("button", name="node", exact=True).click()
    expect(table.get_by_role("rowheader", name=pool.api.items("nodes")[0]["name"])).to_be_visible()
    program.terminate()


def test_page_reconnects_after_appliance_is_killed(console: Console, pool: Pool) -> None:
    page = console.page
    console.open()
    pool.kill("appliance")
    restarted = pool.stack.appliance.process
    assert restarted is not None
    restarted.send_signal(signal.SIGSTOP)  # until the page has shown that there is none
    expect(page.get_by_text("reconnecting")).to_be_visible()
    expect(page.get_by_text(re.compile("The appliance does not answer"))).to_be_visible()
    restarted.send_signal(signal.SIGCONT)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    pool.wait("the node", lambda: pool.api.items("nodes")[0]["reachable"])
    node = pool.api.items("nodes")[0]
    pool.api.request("POST", f"nodes/{node['id']}/cordon")
    expect(page.get_by_role("main").get_by_text("cordoned", exact=True)).to_be_visible()
    pool.api.request("POST", f"nodes/{node['id']}/uncordon")
    expect(page.get_by_role("main").get_by_text("ready", exact=True)).to_be_visible()
    console.errors.clear()  # connection failures during the restart


def tooltip_after_focus_has(button: Locator, text: str) -> bool:
    """PatternFly's timers hide the tooltip of a button in its first 0.6 s."""
    button.blur()
    button.focus()
    with suppress(TimeoutError):
        button.page.get_by_role("tooltip").filter(has_text=text).wait_for(timeout=1000)
        return True
    return False


def test_viewer_sees_disabled_actions_with_reason(viewer: Console, pool: Pool) -> None:
    page = viewer.page
    viewer.open()
    for button, what in (("Allocate GPUs", "allocate GPUs"), ("Add node", "add and remove nodes")):
        found = page.get_by_role("button", name=button)
        expect(found).to_be_disabled()
        # The reason is reachable by keyboard.
        reason = f"do not allow this: {what}."
        pool.wait("the reason", partial(tooltip_after_focus_has, found, reason))
        page.keyboard.press("Escape")
    program = start_program(pool, 20)
    expect(page.locator("[data-partition]")).to_have_count(1)
    page.get_by_role("link", name="Allocations").click()
    expect(page.get_by_role("button", name=re.compile("Release"))).to_be_disabled()
    program.terminate()


def test_tree_filters_selects_and_follows_url(console: Console) -> None:
    page = console.page
    console.open()
    tree = page.get_by_role("tree", name="Inventory")
    page.get_by_label("Filter the tree").fill("GPU 1")
    expect(tree.get_by_text("GPU 0")).to_have_count(0)
    tree.get_by_text("GPU 1").click()
    expect(page).to_have_url(re.compile("/gpus/"))
    page.reload()
    expect(page.get_by_role("heading", level=1, name=re.compile("GPU 1"))).to_be_visible()
    page.goto(console.url + "/gpus/00000000-0000-7000-8000-000000000000")
    expect(page.get_by_role("heading", name="GPU not found")).to_be_visible()


def test_pages_have_no_accessibility_violations(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    console.open()
    program = start_program(pool, 30)
    found: dict[str, list[str]] = {}
    node, gpu = pool.api.items("nodes")[0]["id"], pool.api.items("partitions")[0]["gpu_id"]
    for path in (*PAGES, f"/nodes/{node}", f"/gpus/{gpu}"):
        console.navigate(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("tree").get_by_text("gpu_demo")).to_be_visible()
        name = re.sub("[^a-z]+", "-", path.split("-")[0][1:]) or "overview"
        found[path] = violations_in_both_themes(page, screenshots, name)
    console.open("/")
    for button in ("Allocate GPUs", "Add node"):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        name = button.split()[0].lower()
        found[button] = violations_in_both_themes(page, screenshots, name)
        page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Use dark theme").click()
    console.open("/")
    found["loaded in the dark theme"] = console.violations("color-contrast")
    program.terminate()
    assert {page_path: v for page_path, v in found.items() if v} == {}


def test_release_names_the_program_that_it_ends(console: Console, pool: Pool) -> None:
    page = console.page
    program = start_program(pool, 30)
    console.open("/allocations")
    page.get_by_role("button", name="Release gpu_demo").click()
    dialog = page.get_by_role("dialog", name="Release gpu_demo?")
    # The session may reach the page after the dialog has opened.
    expect(dialog.get_by_text("1 running program is ended")).to_be_visible()
    expect(dialog.get_by_text(re.compile("gpu_demo from 127.0.0.1"))).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    assert program.poll() is None, "a question that was cancelled must change nothing"


def test_page_in_a_chunk_opens_after_an_outage(console: Console, pool: Pool) -> None:
    page = console.page
    console.open()
    page.route("**/assets/FleetPage-*.js*", lambda route: route.abort())
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_text("This page could not be fetched")).to_be_visible()
    expect(page.get_by_role("tree", name="Inventory")).to_be_visible()
    page.unroute("**/assets/FleetPage-*.js*")
    expect(page.get_by_role("heading", level=1, name="Fleet")).to_be_visible()
    console.errors.clear()  # of Chromium, for the chunk


def test_failed_list_is_an_error_and_not_an_empty_one(console: Console) -> None:
    page = console.page
    page.route("**/api/v1/quotas*", lambda route: route.fulfill(status=500, body="{}"))
    console.open("/pools?tab=quotas")
    expect(page.get_by_text("This could not be loaded")).to_be_visible()
    page.unroute("**/api/v1/quotas*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", name="Create quota")).to_be_visible()
    console.errors.clear()  # of Chromium, for status 500


def test_palette_opens_objects_and_refuses_what_the_server_refuses(viewer: Console) -> None:
    page = viewer.page
    viewer.open()
    page.keyboard.press("Control+k")
    search = page.locator("#palette")
    search.fill("GPU 1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name=re.compile("GPU 1"))).to_be_visible()
    assert page.title() == "GPU 1 – Busbar"
    page.keyboard.press("Control+k")
    page.locator("#palette").fill("cordon")
    refused = page.get_by_role("option", name=re.compile("^Cordon")).first
    expect(refused).to_have_attribute("aria-disabled", "true")
    expect(refused).to_contain_text("inventory.manage")


def test_administrator_creates_and_deletes_a_user(console: Console, pool: Pool) -> None:
    page = console.page
    console.open("/access?tab=users")
    page.get_by_role("button", name="Create user").click()
    page.get_by_label("User name").fill("mei")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_text("it is shown once")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).last.click()
    page.get_by_role("button", name="Actions of mei").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete mei?")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("grid", name="Users").get_by_text("mei", exact=True)).to_have_count(0)
    assert not pool.api.items("users", username="mei")


def test_language_changes_to_chinese_and_is_remembered(console: Console) -> None:
    page = console.page
    console.open()
    page.get_by_role("button", name="administrator").click()
    page.get_by_role("menuitem", name="简体中文").click()
    expect(page.get_by_role("heading", level=1, name="总览")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1, name="总览")).to_be_visible()
    page.evaluate("localStorage.removeItem('busbar.language')")


def test_page_loads_only_own_origin_with_strict_policy(console: Console, pool: Pool) -> None:
    loaded: list[str] = []
    console.page.on("request", lambda r: loaded.append(r.url))
    console.open("/")
    open_gpu(console)
    assert all(
        url.startswith((pool.stack.url, pool.stack.url.replace("https", "wss"), "data:"))
        for url in loaded
    ), loaded
    policy = console.page.request.get(pool.stack.url + "/").headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy


def test_api_documentation_works_under_strict_policy(console: Console, pool: Pool) -> None:
    """Swagger UI renders operations when they are scrolled into view."""
    page = console.page
    page.goto(pool.stack.url + "/api/docs")
    expect(page.locator(".opblock").first).to_be_visible()
    operation = page.locator(".opblock").filter(has_text="/api/v1/nodes/enrol-ssh")
    page.mouse.move(600, 300)

    def is_in_view_after_scrolling() -> bool:
        page.mouse.wheel(0, 200)
        return operation.is_visible()

    wait_for("the operation", is_in_view_after_scrolling, pool.stack.data)
