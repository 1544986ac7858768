#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: group_info
short_description: List groups of a Busbar appliance
version_added: 0.2.0
description:
  - Lists those groups that the API token may see.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  name:
    description: "List only objects with this value. Name of the group."
    type: str
attributes:
  check_mode:
    support: full
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: List groups
  busbar.pool.group_info:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
"""

RETURN = r"""
groups:
  description: The groups with C(users) and C(groups), the names of their members.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.busbar.pool.plugins.module_utils.listing import list_objects
from ansible_collections.busbar.pool.plugins.module_utils.members import with_members

OPTIONS = {
    "name": {"type": "str"},
}


def main():
    list_objects("groups", "groups", OPTIONS, extend=with_members)


if __name__ == "__main__":
    main()
