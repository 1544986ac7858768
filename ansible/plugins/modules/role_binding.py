#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: role_binding
short_description: Manage a role binding of a Busbar appliance
version_added: 0.2.0
description:
  - Binds roles to users and groups, and ends role bindings.
  - Without a place (O(project), O(department), O(site), O(node), O(gpu) or O(pool)) the role
    applies to the whole appliance.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  role:
    description: "Name of the role, such as V(operator)."
    type: str
    required: true
  user:
    description: "Name of the user."
    type: str
  group:
    description: "Name of the group."
    type: str
  project:
    description: "Name of the project in which the role applies."
    type: str
  department:
    description: "Name of the department in whose projects the role applies."
    type: str
  site:
    description: "Name of the site to whose nodes the role applies."
    type: str
  node:
    description: "Name of the node to which the role applies."
    type: str
  gpu:
    description: "Node and index of the GPU to which the role applies, such as V(n1/0)."
    type: str
  pool:
    description: "Name of the pool to which the role applies."
    type: str
"""

EXAMPLES = r"""
- name: Create a role binding
  busbar.pool.role_binding:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    role: user
    group: researchers
    project: vision
"""

RETURN = r"""
role_binding:
  description: The role binding after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"role": "user", "group": "researchers", "project": "vision"}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

PLACES = ["project", "department", "site", "node", "gpu", "pool"]
KIND = Kind(
    "role_binding",
    "role-bindings",
    identity=["role", "user", "group", *PLACES],
)
OPTIONS = {
    "role": {"type": "str", "required": True},
    "user": {"type": "str"},
    "group": {"type": "str"},
    "project": {"type": "str"},
    "department": {"type": "str"},
    "site": {"type": "str"},
    "node": {"type": "str"},
    "gpu": {"type": "str"},
    "pool": {"type": "str"},
}


def main():
    manage(
        KIND,
        OPTIONS,
        required_one_of=[("user", "group")],
        mutually_exclusive=[("user", "group"), tuple(PLACES)],
    )


if __name__ == "__main__":
    main()
