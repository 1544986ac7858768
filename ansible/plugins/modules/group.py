#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: group
short_description: Manage a group of a Busbar appliance
version_added: 0.2.0
description:
  - Creates and deletes groups, and sets their members.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: Name of the group.
    type: str
    required: true
  users:
    description: Names of all users in the group. Omit it to keep the existing users.
    type: list
    elements: str
  groups:
    description:
      - Names of all groups whose members are members, too. Omit it to keep the existing groups.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Create a group with two members
  busbar.pool.group:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: researchers
    users: [ada, grace]
"""

RETURN = r"""
group:
  description: The group after the change, with its members; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "researchers", "users": ["ada", "grace"], "groups": []}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.busbar.pool.plugins.module_utils.appliance import ApplianceError
from ansible_collections.busbar.pool.plugins.module_utils.members import set_members, with_members
from ansible_collections.busbar.pool.plugins.module_utils.resource import (
    Kind,
    connect,
    describe,
    find,
    remove,
    state_argument_spec,
)

KIND = Kind("group", "groups", identity=["name"], changeable=["users", "groups"])
NAMES = {"type": "list", "elements": "str"}


def change(module, appliance, group):
    """Create the group if it is None, and set its members. Returns whether it changes, and it."""
    wanted = {
        f: sorted(set(module.params[f])) for f in KIND.changeable if module.params[f] is not None
    }
    existing = group or {"name": module.params["name"], "users": [], "groups": []}
    changed = group is None or any(existing[f] != wanted[f] for f in wanted)
    if module.check_mode or not changed:
        return changed, {**existing, **wanted}
    if group is None:
        group = appliance.request("POST", "groups", {"name": module.params["name"]})
    set_members(appliance, group, wanted)
    return True, with_members(appliance, group)


def main():
    spec = state_argument_spec(
        name={"type": "str", "required": True}, users=dict(NAMES), groups=dict(NAMES)
    )
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    appliance = connect(module)
    try:
        found = find(KIND, appliance, module.params)
        group = with_members(appliance, found[0]) if found else None
        before = describe(KIND, group)
        if module.params["state"] == "absent":
            changed, group = remove(KIND, module, appliance, found)
        else:
            changed, group = change(module, appliance, group)
    except ApplianceError as error:
        module.fail_json(msg=str(error), code=error.code)
    diff = {"before": before, "after": describe(KIND, group)}
    module.exit_json(changed=changed, group=group, diff=diff)


if __name__ == "__main__":
    main()
