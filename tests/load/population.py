"""Test data: nodes with certificates and eight GPUs each in two pools, users and tokens."""

from __future__ import annotations

import json
import os
import random
import sys
import uuid
from pathlib import Path
from typing import Any

import django

MODELS = (
    ("NVIDIA H200", 141 << 30, "9.0"),
    ("NVIDIA A100 80GB", 80 << 30, "8.0"),
    ("NVIDIA L40S", 48 << 30, "8.9"),
)
USERS, PROJECTS, TOKENS_PER_USER = 30, 10, 10
GPUS_PER_NODE = 8


def populate(folder: Path, nodes: int, *, with_people: bool = False) -> None:
    """Migrate the databases and insert the data.

    Writes `fleet.json` (keys and certificates of the nodes) and `users.json` (tokens).
    """
    from django.conf import settings
    from django.core.management import call_command
    from django.db import transaction

    from appliance.fleet.certificates import load_authority

    for database in settings.DATABASES:
        call_command("migrate", database=database, interactive=False, verbosity=0)
    from appliance.accounts.services import ensure_defaults
    from appliance.pools.services import create_pool, ensure_default_pool

    ensure_default_pool()
    ensure_defaults()
    authority = load_authority(settings.DATA_DIR)
    with transaction.atomic():
        users = create_users()
        create_pool(values={"name": "kept", "projects": ["others"]}, actor="load")
        fleet = create_fleet(nodes, authority.pem)
        if with_people:
            add_many_people()
    (folder / "fleet.json").write_text(json.dumps(fleet))
    (folder / "users.json").write_text(json.dumps(users))


def create_users() -> dict[str, Any]:
    """Create three users in each of ten projects, and the project `others`, which owns a pool."""
    from appliance.accounts.models import Project, Role, RoleBinding, User
    from appliance.accounts.services import token_create

    projects = [Project.objects.get_or_create(name=f"team{i}")[0] for i in range(PROJECTS)]
    others, _ = Project.objects.get_or_create(name="others")
    tokens = []
    for i in range(USERS):
        user = User.objects.create(username=f"load{i}")
        project = projects[i % PROJECTS]
        RoleBinding.objects.create(user=user, project=project, role=Role.USER)
        tokens += [
            (token_create(user=user, name="load")[1], project.name) for _ in range(TOKENS_PER_USER)
        ]
    operator = User.objects.create(username="load-operator")
    RoleBinding.objects.create(user=operator, project=None, role=Role.OPERATOR)
    return {
        "tokens": [text for text, _ in tokens],
        "projects": [project for _, project in tokens],
        "operator": token_create(user=operator, name="load")[1],
        "others": str(others.pk),
    }


def add_many_people() -> None:
    from appliance.accounts.models import User
    from tests.load.people import People, add_people

    add_people(People(), list(User.objects.filter(username__startswith="load")))


def create_node(n: int) -> Any:
    from appliance.db.identifiers import uuid7
    from appliance.inventory.models import Endpoint, Node, NodeState

    node_id = uuid7()
    node = Node.objects.create(
        id=node_id,
        boot_id=str(node_id),
        name=f"node{n:04d}",
        state=NodeState.READY,
        driver_version="580.95.05",
        agent_version="load",
        labels={"rack": f"r{n % 40}"},
    )
    Endpoint.objects.create(node=node, address="127.0.0.1", port=1)
    return node


def new_gpus(rng: random.Random, **values: Any) -> list[Any]:
    """Return the GPUs of a node with these values. They are not stored."""
    from appliance.inventory.models import Gpu

    return [
        Gpu(uuid=uuid.UUID(int=rng.getrandbits(128)), index=i, **values)
        for i in range(GPUS_PER_NODE)
    ]


def create_fleet(nodes: int, ca_pem: str) -> list[dict[str, Any]]:
    """Create nodes with GPUs, alternating between the pools, and return their credentials."""
    from appliance.fleet.enrolment import issue_certificates
    from appliance.inventory.models import Gpu
    from appliance.pools.models import Pool
    from nodes.enrolment import new_key_and_csr

    pools = [Pool.objects.get(name="default"), Pool.objects.get(name="kept")]
    rng, fleet, gpus = random.Random(7), [], list[Gpu]()
    for n in range(nodes):
        node = create_node(n)
        key, csr = new_key_and_csr()
        certificates = issue_certificates(node, csr, new_key_and_csr()[1])
        model, memory, capability = MODELS[rng.randrange(len(MODELS))]
        node_gpus = new_gpus(
            rng,
            node=node,
            pool=pools[n % 2],
            model=model,
            memory_bytes=memory,
            compute_capability=capability,
        )
        gpus += node_gpus
        fleet.append(
            {
                "id": str(node.pk),
                "key": key.decode(),
                "certificate": certificates["agent_pem"],
                "ca": ca_pem,
                "model": model,
                "memory_bytes": memory,
                "capability": capability,
                "gpus": [{"id": str(g.pk), "uuid": g.uuid.hex} for g in node_gpus],
            }
        )
    Gpu.objects.bulk_create(gpus, batch_size=500)
    return fleet


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    django.setup()
    populate(Path(sys.argv[1]), int(sys.argv[2]), with_people="--people" in sys.argv)
