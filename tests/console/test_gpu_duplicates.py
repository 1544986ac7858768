"""Pages of a node and a GPU that another node has as well."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Console
from tests.console.pictures import picture
from tests.system.conftest import Pool
from tests.system.enrolled_agent import Agent

pytestmark = pytest.mark.system


def test_pages_of_a_gpu_of_two_nodes_name_the_other_node(
    console: Console, pool: Pool, screenshots: Path
) -> None:
    (node,) = pool.api.items("nodes")
    owner = pool.api.items("gpus", node_id=node["id"])[0]
    agent, page = Agent(pool), console.page
    try:
        stream = agent.connect()
        stream.send(agent.inventory(1, uuid=UUID(owner["uuid"]).bytes))
        pool.wait("the GPU", lambda: bool(agent.events("gpu.duplicate")))
        (held,) = pool.api.items("gpus", node_id=agent.node_id)
        console.open(f"/nodes/{agent.node_id}")
        text = f"Node {node['name']} has the same GPU"
        expect(page.get_by_role("link", name=f"held: {text}")).to_be_visible()
        picture(page, screenshots, "duplicate-node")
        console.navigate(f"/gpus/{held['id']}")
        expect(page.get_by_text(f"remove node {node['name']}")).to_be_visible()
        picture(page, screenshots, "duplicate-gpu")
        page.get_by_role("link", name=text).click()
        expect(page).to_have_url(f"{console.url}/gpus/{owner['id']}")
    finally:
        agent.remove()
