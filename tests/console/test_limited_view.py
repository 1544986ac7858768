"""Pages of the inventory for a user who may view a part of it, and no allocation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.console.conftest import Console, sign_in, start_program
from tests.console.pictures import picture
from tests.system.conftest import Pool

pytestmark = pytest.mark.system


@pytest.fixture
def gpu(pool: Pool) -> dict[str, Any]:
    """A GPU with a partition."""
    start_program(pool, 25)
    (partition,) = pool.api.items("partitions")
    found: dict[str, Any] = pool.api.request("GET", f"gpus/{partition['gpu_id']}")
    return found


@contextmanager
def watcher(context: BrowserContext, pool: Pool, **place: str) -> Iterator[Console]:
    """Yield the console of a user whose only role is at a place of the inventory."""
    api = pool.api
    user = api.request("POST", "users", {"username": "watcher", "is_service": True})
    role = api.request("POST", "roles", {"name": "looks", "privileges": ["inventory.view"]})
    api.request("POST", "role-bindings", {"role": "looks", "user": "watcher"} | place)
    made = api.request("POST", "tokens", {"name": "console", "user": "watcher"})
    pool.tokens["watcher", "watcher"] = made["token"]
    console = sign_in(context, pool, "watcher")
    yield console
    assert [e for e in console.errors if "403" not in e] == []  # Chromium logs each refusal
    api.request("DELETE", f"users/{user['id']}")
    api.request("DELETE", f"roles/{role['id']}")


def test_page_of_a_gpu_shows_its_viewer_partitions_and_no_allocations(
    context: BrowserContext, pool: Pool, gpu: dict[str, Any], screenshots: Path
) -> None:
    with watcher(context, pool, gpu=f"{gpu['node']}/{gpu['index']}") as console:
        main = console.page.get_by_role("main")
        console.open(f"/gpus/{gpu['id']}")
        expect(main.get_by_text("another project")).to_be_visible()
        expect(main.get_by_role("heading", name="Metrics of")).to_be_visible()
        expect(main.get_by_text("Allocations on this GPU")).to_have_count(0)
        tree = console.page.get_by_role("tree")
        expect(tree.get_by_text(gpu["node"], exact=True)).to_be_visible()
        picture(console.page, screenshots, "limited-gpu")


def test_pages_of_a_node_and_of_the_fleet_show_what_its_viewer_may_view(
    context: BrowserContext, pool: Pool, gpu: dict[str, Any], screenshots: Path
) -> None:
    with watcher(context, pool, node=gpu["node"]) as console:
        page, main = console.page, console.page.get_by_role("main")
        console.open(f"/nodes/{gpu['node_id']}")
        expect(main.get_by_text("another project")).to_be_visible()
        picture(page, screenshots, "limited-node")
        tree = page.get_by_role("tree")
        expect(tree.get_by_text(gpu["node"], exact=True)).to_be_visible()
        console.navigate("/")
        expect(main.get_by_role("link", name=gpu["node"], exact=True)).to_be_visible()
        picture(page, screenshots, "limited-overview")
        console.navigate("/fleet")
        expect(main.get_by_role("tab", name="Summary")).to_be_visible()
