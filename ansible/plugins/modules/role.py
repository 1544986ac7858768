#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: role
short_description: Manage a role of a Busbar appliance
version_added: 0.2.0
description:
  - Creates, changes and deletes roles, which are sets of privileges. Built-in roles do not change.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: "Name of the role."
    type: str
    required: true
  privileges:
    description: "Names of the privileges, such as C(audit.read). A new role needs at least one."
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Create a role for auditors
  busbar.pool.role:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: auditor
    privileges: [audit.read]
"""

RETURN = r"""
role:
  description: The role after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "auditor", "privileges": ["audit.read"]}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "role",
    "roles",
    identity=["name"],
    changeable=["privileges"],
    sets=["privileges"],
)
OPTIONS = {
    "name": {"type": "str", "required": True},
    "privileges": {"type": "list", "elements": "str"},
}


def main():
    manage(KIND, OPTIONS)


if __name__ == "__main__":
    main()
