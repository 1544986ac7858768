"""The process of a demo fleet: the agents of all simulated nodes, and the users of their GPUs.

Usage: python -m deploy.demo_fleet FOLDER NODES
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from busbar_client import Client, ClientError
from deploy.demo_fleet.node import SimulatedNode
from deploy.demo_fleet.people import People, Person, live_for
from nodes.credentials import Credentials
from nodes.top_level import exit_status_of

log = logging.getLogger("demo-fleet")

TOKENS = "tokens.json"


def connect(credentials: Credentials, token: str) -> Client:
    return Client(credentials.identity.appliance_url, token, credentials.ca_pem)


def furnish(nodes: list[SimulatedNode], tokens: dict[str, Any]) -> None:
    """Give each node a site, labels and notes. Blocks.

    The operator's token ends after an hour; after a restart of the process later, all have them.
    """
    sites = tokens["sites"]
    with connect(nodes[0].keeper.credentials, tokens["operator"]) as client:
        for node in nodes:
            node_id = node.keeper.credentials.identity.node_id
            body = {
                "site": sites[node.index * len(sites) // node.nodes],
                "labels": {"simulated": "yes", "rack": f"r{node.index // 4 + 1}"},
                "notes": tokens["notes"],
            }
            try:
                client.nodes_partial_update(node_id, body)  # type: ignore[arg-type]  # keys are those of PatchedNodeChange
            except ClientError as error:
                log.warning("demo-fleet: node %s not furnished: %s", node.name, error)
                return


def act(nodes: list[SimulatedNode], tokens: dict[str, Any], stop: threading.Event) -> None:
    """Furnish the nodes, and let the users act until `stop` is set. Blocks."""
    furnish(nodes, tokens)
    credentials = nodes[0].keeper.credentials
    people = [
        Person(p["name"], p["project"], connect(credentials, p["token"])) for p in tokens["people"]
    ]
    live_for(People(people, len(nodes)), stop.is_set)


async def main(folder: Path, count: int) -> None:
    tokens = json.loads((folder / TOKENS).read_text())
    nodes = [SimulatedNode(folder, i, count) for i in range(count)]
    stop, ended = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    works = [w for n in nodes for w in (n.run(), n.keeper.run(), n.beat_periodically())]
    tasks = [asyncio.create_task(w) for w in works]
    users = threading.Thread(target=act, args=(nodes, tokens, stop), daemon=True)
    users.start()
    try:
        done, _ = await asyncio.wait(
            [*tasks, asyncio.create_task(ended.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            task.result()
    finally:
        stop.set()


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else a line for each request
    sys.exit(
        exit_status_of(
            "demo-fleet",
            lambda: asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]))),
            is_service=True,
        )
    )
