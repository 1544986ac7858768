"""The inventory plugin against a real appliance with a node."""

from __future__ import annotations

import hashlib
import json
import subprocess
import uuid
from pathlib import Path

import pytest

from nodes.enrolment import Token, new_key_and_csr
from tests.ansible.commands import BIN, environment
from tests.ansible.module_runner import load_plugin
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
    assert variables["busbar_reachable"]
    assert [g["context_bytes"] for g in variables["busbar_gpus"]] == [0]
    assert variables["busbar_labels"] == {"rack": {"__ansible_unsafe": "r12"}}, "no template"


def test_inventory_reports_a_refused_token(
    collections: Path, connection: dict[str, str], tmp_path: Path
) -> None:
    done = list_inventory(collections, tmp_path, connection | {"token": "bb_wrong.token"})
    assert done.returncode != 0 and "token" in done.stderr, done.stderr


def add_node(appliance: Appliance) -> str:
    """Enrol a node that has no GPU and never connects. Return its name."""
    token = appliance.api.request("POST", "enrolment-tokens")["token"]
    body = {
        "secret": Token.parse(token).secret,
        "hostname": f"node-{uuid.uuid4().hex[:8]}",
        "agent_csr": new_key_and_csr()[1],
        "launcher_csr": new_key_and_csr()[1],
    }
    return str(appliance.api.request("POST", "enrol", body)["node_name"])


def test_sites_whose_safe_names_collide_have_a_group_each(
    appliance: Appliance, collections: Path, connection: dict[str, str], tmp_path: Path
) -> None:
    """A site without nodes counts, so that its group never gets the name of the other one's."""
    api, name = appliance.api, add_node(appliance)
    sites = [api.request("POST", "sites", {"name": s})["id"] for s in ("row-1", "row 1", "row-2")]
    path = f"nodes/{api.find_by_name('nodes', name)['id']}"
    groups = {}
    for site in ("row-1", "row 1", "row-2"):
        api.request("PATCH", path, {"site": site})
        done = list_inventory(collections, tmp_path, connection)
        assert done.returncode == 0, done.stderr
        listed = json.loads(done.stdout)
        (groups[site],) = (group for group in listed if group.startswith("site_"))
        assert listed[groups[site]]["hosts"] == [name]
    api.request("PATCH", path, {"site": ""})
    for site in sites:
        api.request("DELETE", f"sites/{site}")
    digests = {s: hashlib.sha256(f"site_{s}".encode()).hexdigest()[:8] for s in groups}
    expected = {s: f"site_row_1_{digests[s]}" for s in ("row-1", "row 1")}
    assert groups == expected | {"row-2": "site_row_2"}


def test_group_named_like_another_with_its_suffix_is_refused(collections: Path) -> None:
    def make_safe(group: str) -> str:
        return group.replace("-", "_").replace(".", "_")

    nodes = load_plugin(collections, "inventory.nodes")
    names = nodes.name_groups({"pool_team-a", "pool_team.a", "pool_b"}, make_safe)
    assert len(set(names.values())) == 3 and names["pool_b"] == "pool_b"
    with pytest.raises(nodes.AnsibleParserError, match="Rename one of them"):
        nodes.name_groups({"pool_team-a", "pool_team.a", names["pool_team-a"]}, make_safe)
