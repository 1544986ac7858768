#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: node
short_description: Manage a node of a Busbar appliance
version_added: 0.1.0
description:
  - Cordons, uncordons, labels or removes a node that is registered with the appliance.
  - Registering a machine is done by the role C(busbar.pool.node), which runs on the machine itself.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  name:
    description: Of the node, as the appliance shows it.
    type: str
    required: true
  state:
    description:
      - V(present), the node takes allocations.
      - V(cordoned), present allocations stay, new ones do not come.
      - V(absent), the node is removed and its certificates are revoked. Refused while allocations hold partitions there.
    type: str
    choices: [present, cordoned, absent]
    default: present
  labels:
    description: The node's labels, all of them. Left as they are when this is not given.
    type: dict
attributes:
  check_mode:
    support: full
    description: Says what would change.
  diff_mode:
    support: full
    description: Shows state and labels before and after.
"""

EXAMPLES = r"""
- name: Node gpu-07 takes no new allocations
  busbar.pool.node:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: gpu-07
    state: cordoned

- name: Node gpu-07 is labelled
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
  description: The node as the appliance has it now; empty when it is absent.
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

STATES = {"present": "ready", "cordoned": "cordoned"}


def shown(node):
    return {"state": node["state"], "labels": node["labels"]} if node else {"state": "absent"}


def remove(module, appliance, node):
    if node is not None and not module.check_mode:
        appliance.request("DELETE", "nodes/" + node["id"], version=node["version"])
    return node is not None, {}


def change(module, appliance, node):
    """The node as it is, or would be, afterwards."""
    wanted_state, labels = STATES[module.params["state"]], module.params["labels"]
    changed = False
    if node["state"] != wanted_state:
        changed = True
        if not module.check_mode:
            verb = "uncordon" if wanted_state == "ready" else "cordon"
            node = appliance.request("POST", f"nodes/{node['id']}/{verb}")
    if labels is not None and node["labels"] != labels:
        changed = True
        if not module.check_mode:
            node = appliance.request(
                "PATCH", "nodes/" + node["id"], {"labels": labels}, version=node["version"]
            )
    if module.check_mode and changed:
        node = dict(node, state=wanted_state, labels=node["labels"] if labels is None else labels)
    return changed, node


def main():
    spec = appliance_argument_spec()
    spec.update(
        name={"type": "str", "required": True},
        state={"type": "str", "choices": ["present", "cordoned", "absent"], "default": "present"},
        labels={"type": "dict"},
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    if module.params["labels"] is not None:
        module.params["labels"] = {k: str(v) for k, v in module.params["labels"].items()}
    appliance = Appliance(module.params["url"], module.params["token"], module.params["ca_file"])
    try:
        node = appliance.named("nodes", module.params["name"])
        before = shown(node)
        if module.params["state"] == "absent":
            changed, node = remove(module, appliance, node)
        elif node is None:
            module.fail_json(
                msg=f"There is no node {module.params['name']}; register the machine with the role busbar.pool.node."
            )
        else:
            changed, node = change(module, appliance, node)
    except ApplianceError as error:
        module.fail_json(msg=str(error), code=error.code)
    module.exit_json(changed=changed, node=node, diff={"before": before, "after": shown(node)})


if __name__ == "__main__":
    main()
