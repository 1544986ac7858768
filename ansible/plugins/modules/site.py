#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: site
short_description: Manage a site of a Busbar appliance
version_added: 0.2.0
description:
  - Creates, changes and deletes sites, which are places of nodes.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: "Name of the site."
    type: str
    required: true
  notes:
    description: "Notes about the site."
    type: str
"""

EXAMPLES = r"""
- name: Create a site
  busbar.pool.site:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: north
    notes: Hall 2
"""

RETURN = r"""
site:
  description: The site after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "north", "notes": "Hall 2"}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "site",
    "sites",
    identity=["name"],
    changeable=["notes"],
)
OPTIONS = {
    "name": {"type": "str", "required": True},
    "notes": {"type": "str"},
}


def main():
    manage(KIND, OPTIONS)


if __name__ == "__main__":
    main()
