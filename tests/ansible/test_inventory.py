"""The inventory plugin against a real appliance with a node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.ansible.commands import BIN, environment
from tests.fleet.conftest import Appliance, needs_root
from tests.fleet.target import Target

pytestmark = pytest.mark.system


def list_inventory(
    collections: Path, folder: Path, connection: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ansible-inventory with a file of the plugin, and the token in the environment."""
    options = {name: connection[name] for name in ("url", "ca_file")}
    keyed = [{"key": "busbar_labels.rack", "prefix": "rack"}]
    content = {"plugin": "busbar.pool.nodes", **options, "keyed_groups": keyed}
    (folder / "gpus.busbar.yml").write_text(json.dumps(content))
    return subprocess.run(
        [BIN / "ansible-inventory", "-i", folder / "gpus.busbar.yml", "--list"],
        env=environment(
            collections,
            BUSBAR_TOKEN=connection["token"],
            ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="1",
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@needs_root
@pytest.mark.long
def test_inventory_groups_nodes_by_pool_site_model_state_and_label(
    appliance: Appliance,
    machine: Target,
    collections: Path,
    connection: dict[str, str],
    tmp_path: Path,
) -> None:
    name = appliance.enrol(machine)["result"]["node"]
    path = f"nodes/{appliance.api.find_by_name('nodes', name)['id']}"
    appliance.api.request("POST", "sites", {"name": "hall 2"})
    change = {"site": "hall 2", "labels": {"rack": "r12"}}
    appliance.api.request("PATCH", path, change)
    appliance.api.request("POST", f"{path}/cordon")

    done = list_inventory(collections, tmp_path, connection)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    groups = {group for group, content in listed.items() if content.get("hosts") == [name]}
    expected = {"pool_default", "site_hall_2", "model_Software_GPU", "state_cordoned", "rack_r12"}
    assert groups == expected
    variables = listed["_meta"]["hostvars"][name]
    assert variables["ansible_host"] == {"__ansible_unsafe": "127.0.0.1"}
    assert variables["busbar_reachable"] and len(variables["busbar_gpus"]) == 1
    assert variables["busbar_labels"] == {"rack": {"__ansible_unsafe": "r12"}}, "no template"


def test_inventory_reports_a_refused_token(
    collections: Path, connection: dict[str, str], tmp_path: Path
) -> None:
    done = list_inventory(collections, tmp_path, connection | {"token": "bb_wrong.token"})
    assert done.returncode != 0 and "token" in done.stderr, done.stderr
