#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: role_info
short_description: List roles of a Busbar appliance
version_added: 0.2.0
description:
  - Lists those roles that the API token may see.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  name:
    description: "List only objects with this value. Name of the role."
    type: str
attributes:
  check_mode:
    support: full
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: List roles
  busbar.pool.role_info:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
"""

RETURN = r"""
roles:
  description: The roles, as the REST API returns them.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.busbar.pool.plugins.module_utils.listing import list_objects

OPTIONS = {
    "name": {"type": "str"},
}


def main():
    list_objects("roles", "roles", OPTIONS)


if __name__ == "__main__":
    main()
