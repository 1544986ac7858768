#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: quota_info
short_description: List quotas of a Busbar appliance
version_added: 0.2.0
description:
  - Lists those quotas that the API token may see.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  subject_kind:
    description: "List only objects with this value. Kind of the subject."
    type: str
    choices: [user, project, department]
  subject:
    description: "List only objects with this value. Name of the user, project or department."
    type: str
attributes:
  check_mode:
    support: full
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: List quotas
  busbar.pool.quota_info:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
"""

RETURN = r"""
quotas:
  description: The quotas, as the REST API returns them.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.busbar.pool.plugins.module_utils.listing import list_objects

OPTIONS = {
    "subject_kind": {"type": "str", "choices": ["user", "project", "department"]},
    "subject": {"type": "str"},
}


def main():
    list_objects("quotas", "quotas", OPTIONS)


if __name__ == "__main__":
    main()
