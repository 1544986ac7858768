# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

DOCUMENTATION = r"""
name: nodes
short_description: Nodes of a Busbar appliance
version_added: 0.2.0
author:
  - The Busbar developers (@busbar)
description:
  - Lists the nodes of an appliance as hosts, with C(ansible_host) set to their first address.
  - Groups them by pool (C(pool_NAME)), site (C(site_NAME)), model of their GPUs (C(model_NAME))
    and state (C(state_ready), C(state_cordoned), C(state_draining), C(state_maintenance)).
  - Characters that names of groups cannot have become underscores. If two pools, two sites or two
    models would share a group by that, each of their groups has a suffix that comes from its name,
    such as C(pool_team_a_39fe418a) for C(team-a) beside C(team.a). Pools and sites without nodes
    count. O(keyed_groups) do not have such suffixes.
  - A node is in the groups of all pools and models of its GPUs. GPUs that the node no longer
    reports are left out.
  - The name of the file ends in C(busbar.yml) or C(busbar.yaml).
extends_documentation_fragment:
  - constructed
options:
  plugin:
    description: Name of the plugin.
    type: str
    required: true
    choices: [busbar.pool.nodes]
  url:
    description: URL of the appliance, such as C(https://busbar.example:8443).
    type: str
    required: true
    env:
      - name: BUSBAR_URL
  token:
    description: API token of a user who may see the inventory and the pools, such as a service
      account with the role C(viewer).
    type: str
    required: true
    env:
      - name: BUSBAR_TOKEN
  ca_file:
    description: File with the certificate of the appliance's CA in PEM format.
    type: path
    required: true
    env:
      - name: BUSBAR_CA
notes:
  - Each host has the variables C(busbar_state), C(busbar_reachable), C(busbar_site),
    C(busbar_labels), C(busbar_pools), C(busbar_models) and C(busbar_gpus). O(compose),
    O(groups) and O(keyed_groups) can use them.
"""

EXAMPLES = r"""
# gpus.busbar.yml, with BUSBAR_TOKEN in the environment
plugin: busbar.pool.nodes
url: https://busbar.example:8443
ca_file: busbar-ca.pem
keyed_groups:
  - key: busbar_labels.rack
    prefix: rack
"""

import hashlib
from collections import Counter

from ansible.errors import AnsibleParserError
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.busbar.pool.plugins.module_utils.appliance import Appliance, ApplianceError

from ansible.plugins.inventory import BaseInventoryPlugin, Constructable

SUFFIXES = ("busbar.yml", "busbar.yaml")
SUFFIX_CHARACTERS = 8
GPU_FIELDS = ("index", "uuid", "model", "memory_bytes", "context_bytes", "pool", "held", "labels")


def variables_of(node, gpus):
    """Return the variables of the host for a node. Their texts are never templates."""
    variables = {
        "busbar_state": node["state"],
        "busbar_reachable": node["reachable"],
        "busbar_site": node["site"],
        "busbar_labels": node["labels"],
        "busbar_pools": sorted({g["pool"] for g in gpus if g["pool"]}),
        "busbar_models": sorted({g["model"] for g in gpus}),
        "busbar_gpus": [{f: g[f] for f in GPU_FIELDS} for g in gpus],
    }
    if node["endpoints"]:
        variables["ansible_host"] = node["endpoints"][0]["address"]
    return {name: wrap_var(value) for name, value in variables.items()}


def groups_of(variables):
    """Return the names of the groups of a host."""
    site = variables["busbar_site"]
    return [
        "state_" + variables["busbar_state"],
        *(["site_" + site] if site else []),
        *("pool_" + name for name in variables["busbar_pools"]),
        *("model_" + name for name in variables["busbar_models"]),
    ]


def name_groups(groups, make_safe):
    """Return the safe name of each group. Those that would have the same name get a suffix.

    The suffix comes from the group itself, so that the name never belongs to another group.
    """
    safe = {group: make_safe(group) for group in groups}
    uses = Counter(safe.values())
    names = {g: name if uses[name] == 1 else f"{name}_{suffix_of(g)}" for g, name in safe.items()}
    for name, times in Counter(names.values()).items():
        if times > 1:  # a pool, say, is named like another group with its suffix
            shared = " and ".join(sorted(str(g) for g in names if names[g] == name))
            raise AnsibleParserError(f"{shared} would be one group, {name}. Rename one of them.")
    return names


def suffix_of(group):
    return hashlib.sha256(group.encode()).hexdigest()[:SUFFIX_CHARACTERS]


class InventoryModule(BaseInventoryPlugin, Constructable):
    NAME = "busbar.pool.nodes"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(SUFFIXES)

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        options = {name: self.get_option(name) for name in ("url", "token", "ca_file")}
        try:
            appliance = Appliance(**options)
            nodes, gpus = appliance.items("nodes"), appliance.items("gpus", "present=true")
            groups = {"pool_" + pool["name"] for pool in appliance.items("pools")}
            groups |= {"site_" + site["name"] for site in appliance.items("sites")}
        except ApplianceError as error:
            raise AnsibleParserError(str(error)) from None
        hosts = []
        for node in nodes:
            own = sorted((g for g in gpus if g["node_id"] == node["id"]), key=lambda g: g["index"])
            hosts.append((node["name"], variables_of(node, own)))
        groups.update(group for _name, variables in hosts for group in groups_of(variables))
        names = name_groups(groups, self._sanitize_group_name)
        for name, variables in hosts:
            self._add_host(name, variables, [names[group] for group in groups_of(variables)])

    def _add_host(self, name, variables, groups):
        host = self.inventory.add_host(name)
        for key, value in variables.items():
            self.inventory.set_variable(host, key, value)
        for group in groups:
            self.inventory.add_child(self.inventory.add_group(group), host)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict)
