#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: user
short_description: Manage a user of a Busbar appliance
version_added: 0.2.0
description:
  - Creates, changes and deletes local users and service accounts.
  - A new person gets a one-time password, which is returned only once, as
    RV(user.one_time_password). Set C(no_log=true) on the task, or show it to the
    administrator only.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  username:
    description: "Name of the user."
    type: str
    required: true
  email:
    description: "Mail address of the user."
    type: str
  is_service:
    description: "The account is of a program: it has no password, only tokens. It cannot change."
    type: bool
  is_active:
    description: "An inactive user cannot sign in. Tokens and allocations end."
    type: bool
"""

EXAMPLES = r"""
- name: Create a user
  busbar.pool.user:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    username: ci
    is_service: true
"""

RETURN = r"""
user:
  description: The user after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"username": "ci", "is_service": true, "is_active": true}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "user",
    "users",
    identity=["username"],
    changeable=["email"],
    fixed=["is_service"],
    later=["is_active"],
)
OPTIONS = {
    "username": {"type": "str", "required": True},
    "email": {"type": "str"},
    "is_service": {"type": "bool"},
    "is_active": {"type": "bool"},
}


def main():
    manage(KIND, OPTIONS)


if __name__ == "__main__":
    main()
