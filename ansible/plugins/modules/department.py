#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: department
short_description: Manage a department of a Busbar appliance
version_added: 0.2.0
description:
  - Creates and deletes departments, which hold projects.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: "Name of the department."
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Create a department
  busbar.pool.department:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: research
"""

RETURN = r"""
department:
  description: The department after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "research"}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "department",
    "departments",
    identity=["name"],
)
OPTIONS = {
    "name": {"type": "str", "required": True},
}


def main():
    manage(KIND, OPTIONS)


if __name__ == "__main__":
    main()
