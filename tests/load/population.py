"""A company's worth of rows: a thousand nodes with certificates, eight thousand GPUs in two pools, users and their tokens."""

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
USERS, PROJECTS, TOKENS_EACH = 30, 10, 10
GPUS_A_NODE = 8


def populate(folder: Path, nodes: int) -> None:
    """Writes `fleet.json` (keys and certificates of each node) and `people.json` (tokens) into the folder."""
    from django.conf import settings
    from django.core.management import call_command
    from django.db import transaction

    from appliance.fleet.certificates import load_authority

    for database in settings.DATABASES:
        call_command("migrate", database=database, interactive=False, verbosity=0)
    from appliance.accounts.services import ensure_defaults
    from appliance.pools.services import PoolRules, ensure_default_pool, pool_create

    ensure_default_pool()
    ensure_defaults()
    authority = load_authority(settings.DATA_DIR)
    with transaction.atomic():
        people = make_people()
        pool_create(name="kept", rules=PoolRules(projects=["others"]), actor="load")
        fleet = make_fleet(nodes, authority.pem)
    (folder / "fleet.json").write_text(json.dumps(fleet))
    (folder / "people.json").write_text(json.dumps(people))


def make_people() -> dict[str, Any]:
    """Three users in each of ten projects; half of the GPUs is for all of them, the other half is kept for `others`."""
    from appliance.accounts.models import Project, Role, RoleBinding, User
    from appliance.accounts.services import token_create

    ours = [Project.objects.get_or_create(name=f"team{i}")[0] for i in range(PROJECTS)]
    theirs, _ = Project.objects.get_or_create(name="others")
    tokens = []
    for i in range(USERS):
        user = User.objects.create(username=f"load{i}")
        project = ours[i % PROJECTS]
        RoleBinding.objects.create(user=user, project=project, role=Role.USER)
        tokens += [
            (token_create(user=user, name="load")[1], project.name) for _ in range(TOKENS_EACH)
        ]
    operator = User.objects.create(username="load-operator")
    RoleBinding.objects.create(user=operator, project=None, role=Role.OPERATOR)
    return {
        "tokens": [text for text, _ in tokens],
        "projects": [project for _, project in tokens],
        "operator": token_create(user=operator, name="load")[1],
        "others": str(theirs.pk),
    }


def make_fleet(nodes: int, ca_pem: str) -> list[dict[str, Any]]:
    from appliance.fleet.enrolment import certificates_for
    from appliance.identifiers import uuid7
    from appliance.inventory.models import Endpoint, Gpu, Node, NodeState
    from appliance.pools.models import Pool
    from nodes.enrolment import new_key_and_csr

    pools = [Pool.objects.get(name="default"), Pool.objects.get(name="kept")]
    dice, fleet, gpus = random.Random(7), [], []
    for n in range(nodes):
        made = uuid7()
        node = Node.objects.create(
            id=made,
            boot_id=str(made),
            name=f"node{n:04d}",
            state=NodeState.READY,
            driver_version="580.95.05",
            agent_version="load",
            labels={"rack": f"r{n % 40}"},
        )
        Endpoint.objects.create(node=node, address="127.0.0.1", port=1)
        key, csr = new_key_and_csr()
        certificates = certificates_for(node, csr, new_key_and_csr()[1])
        model, memory, capability = MODELS[dice.randrange(len(MODELS))]
        here = [
            Gpu(
                node=node, pool=pools[n % 2], uuid=uuid.UUID(int=dice.getrandbits(128)), index=i, model=model, memory_bytes=memory,
                compute_capability=capability,
            )
            for i in range(GPUS_A_NODE)
        ]  # fmt: skip
        gpus += here
        fleet.append(
            {
                "id": str(node.pk), "key": key.decode(), "certificate": certificates["agent_pem"], "ca": ca_pem, "model": model, "memory_bytes": memory,
                "capability": capability, "gpus": [{"id": str(g.pk), "uuid": g.uuid.hex} for g in here],
            }
        )  # fmt: skip
    Gpu.objects.bulk_create(gpus, batch_size=500)
    return fleet


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    django.setup()
    populate(Path(sys.argv[1]), int(sys.argv[2]))
