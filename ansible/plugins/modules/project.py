#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: project
short_description: Manage a project of a Busbar appliance
version_added: 0.2.0
description:
  - Creates projects, moves them between departments and deletes them.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: "Name of the project."
    type: str
    required: true
  department:
    description: "Name of the department. An empty name removes the project from its department."
    type: str
"""

EXAMPLES = r"""
- name: Create a project
  busbar.pool.project:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: vision
    department: research
"""

RETURN = r"""
project:
  description: The project after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "vision", "department": "research"}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "project",
    "projects",
    identity=["name"],
    changeable=["department"],
)
OPTIONS = {
    "name": {"type": "str", "required": True},
    "department": {"type": "str"},
}


def main():
    manage(KIND, OPTIONS)


if __name__ == "__main__":
    main()
