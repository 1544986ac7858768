#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: role_binding_info
short_description: List role bindings of a Busbar appliance
version_added: 0.2.0
description:
  - Lists those role bindings that the API token may see.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  role:
    description: "List only objects with this value. Name of the role, such as V(operator)."
    type: str
  user:
    description: "List only objects with this value. Name of the user."
    type: str
  group:
    description: "List only objects with this value. Name of the group."
    type: str
  project:
    description: "List only objects with this value. Name of the project in which the role applies."
    type: str
  department:
    description: "List only objects with this value. Name of the department."
    type: str
  site:
    description: "List only objects with this value. Name of the site."
    type: str
  node:
    description: "List only objects with this value. Name of the node."
    type: str
  gpu:
    description: "List only objects with this value. Node and index of the GPU, such as V(n1/0)."
    type: str
  pool:
    description: "List only objects with this value. Name of the pool."
    type: str
attributes:
  check_mode:
    support: full
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: List role bindings
  busbar.pool.role_binding_info:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
"""

RETURN = r"""
role_bindings:
  description: The role bindings, as the REST API returns them.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.busbar.pool.plugins.module_utils.listing import list_objects

OPTIONS = {
    "role": {"type": "str"},
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
    list_objects("role_bindings", "role-bindings", OPTIONS)


if __name__ == "__main__":
    main()
