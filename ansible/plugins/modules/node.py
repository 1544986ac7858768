#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: node
short_description: Manage a node of a Busbar appliance
version_added: 0.1.0
description:
  - Cordons, uncordons, drains, labels or removes an enrolled node on the appliance.
  - To enrol a machine, use the role C(busbar.pool.node), which runs on the machine itself.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  name:
    description: Name of the node on the appliance.
    type: str
    required: true
  state:
    description:
      - V(present) makes the node available for allocations. It ends maintenance.
      - V(cordoned) excludes the node from placement. Existing allocations stay.
      - V(maintenance) drains the node. The module does not wait; the node is C(draining) until its
        allocations have ended, then in C(maintenance).
      - V(absent) removes the node and revokes its certificates.
      - Removal fails while allocations hold partitions of the node.
    type: str
    choices: [present, cordoned, maintenance, absent]
    default: present
  grace_seconds:
    description: Time until the allocations on a node that is drained are evicted.
    type: int
    default: 300
  labels:
    description: Complete set of labels of the node. Omit it to keep the existing labels.
    type: dict
attributes:
  check_mode:
    support: full
    description: Reports whether the node would change.
  diff_mode:
    support: full
    description: Reports state and labels before and after the change.
"""

EXAMPLES = r"""
- name: Cordon node gpu-07
  busbar.pool.node:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: gpu-07
    state: cordoned

- name: Drain node gpu-07, and wait until it is empty
  busbar.pool.node:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: gpu-07
    state: maintenance
    grace_seconds: 600
  register: drained
  until: drained.node.state == "maintenance"
  retries: 150
  delay: 5

- name: Label node gpu-07
  busbar.pool.node:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: gpu-07
    labels:
      rack: r12
"""

RETURN = r"""
node:
  description: The node after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "gpu-07", "state": "cordoned", "labels": {"rack": "r12"}}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.busbar.pool.plugins.module_utils.appliance import (
    Appliance,
    ApplianceError,
    appliance_argument_spec,
)

STATES = {"present": "ready", "cordoned": "cordoned", "maintenance": "maintenance"}


def describe(node):
    """Return state and labels for the diff."""
    return {"state": node["state"], "labels": node["labels"]} if node else {"state": "absent"}


def remove(module, appliance, node):
    """Remove the node. Returns whether it existed, and an empty dictionary."""
    if node is not None and not module.check_mode:
        appliance.request("DELETE", "nodes/" + node["id"], version=node["version"])
    return node is not None, {}


def transition(state, wanted):
    """Return the operation that brings a node to the wanted state, or None if it needs none."""
    if state == wanted or (wanted == "maintenance" and state == "draining"):
        return None
    if wanted == "maintenance":
        return "enter-maintenance"
    if wanted == "ready":
        return "exit-maintenance" if state in ("draining", "maintenance") else "uncordon"
    return "cordon"


def change(module, appliance, node):
    """Set state and labels. Returns whether they change, and the node after the change."""
    wanted_state, labels = STATES[module.params["state"]], module.params["labels"]
    operation = transition(node["state"], wanted_state)
    changed = operation is not None
    if operation is not None and not module.check_mode:
        enters = operation == "enter-maintenance"
        body = {"grace_seconds": module.params["grace_seconds"]} if enters else None
        appliance.request("POST", f"nodes/{node['id']}/{operation}", body)
        node = appliance.request("GET", "nodes/" + node["id"])
    if labels is not None and node["labels"] != labels:
        changed = True
        if not module.check_mode:
            node = appliance.request(
                "PATCH", "nodes/" + node["id"], {"labels": labels}, version=node["version"]
            )
    if module.check_mode and changed:
        state = wanted_state if operation is not None else node["state"]
        node = dict(node, state=state, labels=node["labels"] if labels is None else labels)
    return changed, node


def main():
    spec = appliance_argument_spec()
    spec.update(
        name={"type": "str", "required": True},
        state={"type": "str", "choices": [*STATES, "absent"], "default": "present"},
        grace_seconds={"type": "int", "default": 300},
        labels={"type": "dict"},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if module.params["labels"] is not None:
        module.params["labels"] = {k: str(v) for k, v in module.params["labels"].items()}
    appliance = Appliance(module.params["url"], module.params["token"], module.params["ca_file"])
    try:
        node = appliance.find_by_name("nodes", module.params["name"])
        before = describe(node)
        if module.params["state"] == "absent":
            changed, node = remove(module, appliance, node)
        elif node is None:
            module.fail_json(
                msg=f"Node {module.params['name']} not found;"
                " enrol the machine with the role busbar.pool.node."
            )
        else:
            changed, node = change(module, appliance, node)
    except ApplianceError as error:
        module.fail_json(msg=str(error), code=error.code)
    module.exit_json(changed=changed, node=node, diff={"before": before, "after": describe(node)})


if __name__ == "__main__":
    main()
