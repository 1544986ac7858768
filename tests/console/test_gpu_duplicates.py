"""Pages of a node and a GPU that another node has as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.console.conftest import Console, sign_in
from tests.console.pictures import picture
from tests.system.conftest import Pool
from tests.system.enrolled_agent import Agent

pytestmark = pytest.mark.system


@contextmanager
def held_duplicate(pool: Pool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield a GPU, and that of a second node with the same UUID."""
    (node,) = pool.api.items("nodes")
    owner = pool.api.items("gpus", node_id=node["id"])[0]
    agent = Agent(pool)
    try:
        stream = agent.connect()
        stream.send(agent.inventory(1, uuid=UUID(owner["uuid"]).bytes))
        pool.wait("the GPU", lambda: bool(agent.events("gpu.duplicate")))
        (held,) = pool.api.items("gpus", node_id=agent.node_id)
        yield owner, held
    finally:
        agent.remove()


def test_pages_of_a_gpu_of_two_nodes_name_the_other_node(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    page = console.page
    with held_duplicate(pool) as (owner, held):
        console.open(f"/nodes/{held['node_id']}")
        text = f"Node {owner['node']} has the same GPU"
        expect(page.get_by_role("link", name=f"held: {text}")).to_be_visible()
        picture(page, screenshots, "duplicate-node")
        console.navigate(f"/gpus/{held['id']}")
        expect(page.get_by_text(f"remove node {owner['node']}")).to_be_visible()
        picture(page, screenshots, "duplicate-gpu")
        page.get_by_role("link", name=text).click()
        expect(page).to_have_url(f"{console.url}/gpus/{owner['id']}")


def test_page_of_a_duplicate_names_no_node_that_the_user_may_not_view(
    context: BrowserContext, pool: Pool, screenshots: Path
) -> None:
    with held_duplicate(pool) as (_, held):
        user = pool.api.request("POST", "users", {"username": "neighbour", "is_service": True})
        work = {"name": "watcher", "privileges": ["allocations.view", "activity.view"]}
        role = pool.api.request("POST", "roles", work)
        for place in (
            {"role": "operator", "node": held["node"]},
            {"role": "watcher", "project": "default"},
        ):
            pool.api.request("POST", "role-bindings", place | {"user": "neighbour"})
        made = pool.api.request("POST", "tokens", {"name": "console", "user": "neighbour"})
        pool.tokens["neighbour", "neighbour"] = made["token"]
        console = sign_in(context, pool, "neighbour")
        console.open(f"/gpus/{held['id']}")
        main = console.page.get_by_role("main")
        expect(main.get_by_text("Another node has the same GPU")).to_be_visible()
        expect(main.get_by_text("You may not view that node")).to_be_visible()
        picture(console.page, screenshots, "duplicate-hidden")
        pool.api.request("DELETE", f"users/{user['id']}")
        pool.api.request("DELETE", f"roles/{role['id']}")
