#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: pool
short_description: Manage a pool of a Busbar appliance
version_added: 0.2.0
description:
  - Creates, changes and deletes pools, which are named sets of GPUs.
  - An omitted option keeps its value. Deletion fails while the pool is in use.
  - GPUs move between pools with C(busbar gpu move).
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: Name of the pool.
    type: str
    required: true
  policies:
    description: Placement policies. A later policy breaks the ties of the earlier ones.
    type: list
    elements: str
    choices: [pack, spread, model_affinity, exclusive]
  fallbacks:
    description: Names of the pools to try after this one, in order.
    type: list
    elements: str
  max_lifetime_seconds:
    description: Time from activation of an allocation to its eviction. V(0) is unlimited.
    type: int
  max_idle_seconds:
    description: Time without a launch or copy until eviction. V(0) is unlimited.
    type: int
  max_late_seconds:
    description:
      - Time for which work of a session may run beyond its turn while others wait for the GPU,
        until the session ends. V(0) is unlimited.
    type: int
  network:
    description: Clients try the endpoints of this network first. Empty for no preference.
    type: str
  admit_new_gpus:
    description: GPUs that enrolled nodes report later join the default pool without an operator.
    type: bool
  required_isolation:
    description: Isolation of sessions that nodes need for new allocations.
    type: str
    choices: [any, process, namespaces, full]
  projects:
    description: Names of the projects that may use the pool. An empty list permits all.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Create a pool
  busbar.pool.pool:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: a100
    policies: [model_affinity, pack]
    projects: [vision]
    max_lifetime_seconds: 86400
"""

RETURN = r"""
pool:
  description: The pool after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "a100", "policies": ["model_affinity", "pack"], "projects": ["vision"]}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "pool",
    "pools",
    identity=["name"],
    changeable=[
        "policies",
        "fallbacks",
        "max_lifetime_seconds",
        "max_idle_seconds",
        "max_late_seconds",
        "network",
        "admit_new_gpus",
        "required_isolation",
        "projects",
    ],
    sets=["projects"],
    unlimited=["max_lifetime_seconds", "max_idle_seconds", "max_late_seconds"],
)
POLICIES = ["pack", "spread", "model_affinity", "exclusive"]
OPTIONS = {
    "name": {"type": "str", "required": True},
    "policies": {"type": "list", "elements": "str", "choices": POLICIES},
    "fallbacks": {"type": "list", "elements": "str"},
    "max_lifetime_seconds": {"type": "int"},
    "max_idle_seconds": {"type": "int"},
    "max_late_seconds": {"type": "int"},
    "network": {"type": "str"},
    "admit_new_gpus": {"type": "bool"},
    "required_isolation": {"type": "str", "choices": ["any", "process", "namespaces", "full"]},
    "projects": {"type": "list", "elements": "str"},
}


def main():
    manage(KIND, OPTIONS)


if __name__ == "__main__":
    main()
