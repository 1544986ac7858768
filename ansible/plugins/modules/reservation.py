#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: reservation
short_description: Manage a reservation of a Busbar appliance
version_added: 0.2.0
description:
  - Reserves GPUs of a pool for a project during a period, and deletes reservations.
  - A reservation cannot change. To replace it, remove it and create it again.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: "Name of the reservation."
    type: str
    required: true
  pool:
    description: "Name of the pool."
    type: str
  project:
    description: "Name of the project."
    type: str
  gpu_count:
    description: "Number of GPUs."
    type: int
  percent:
    description: "Share of each GPU."
    type: int
  starts_at:
    description: "Start with its zone, such as V(2026-12-01T08:00:00Z)."
    type: str
  ends_at:
    description: "End with its zone."
    type: str
  allow_pending:
    description: "Accept the reservation also if reservations exceed the GPUs of the pool."
    type: bool
"""

EXAMPLES = r"""
- name: Create a reservation
  busbar.pool.reservation:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: course
    pool: default
    project: vision
    gpu_count: 2
    starts_at: "2026-12-01T08:00:00Z"
    ends_at: "2026-12-01T18:00:00Z"
"""

RETURN = r"""
reservation:
  description: The reservation after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "course", "pool": "default", "project": "vision", "gpu_count": 2}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "reservation",
    "reservations",
    identity=["name"],
    fixed=["pool", "project", "gpu_count", "percent", "starts_at", "ends_at"],
    times=["starts_at", "ends_at"],
    at_creation=["allow_pending"],
)
OPTIONS = {
    "name": {"type": "str", "required": True},
    "pool": {"type": "str"},
    "project": {"type": "str"},
    "gpu_count": {"type": "int"},
    "percent": {"type": "int"},
    "starts_at": {"type": "str"},
    "ends_at": {"type": "str"},
    "allow_pending": {"type": "bool"},
}


def main():
    manage(
        KIND,
        OPTIONS,
        required_if=[
            ("state", "present", ("pool", "project", "gpu_count", "starts_at", "ends_at"))
        ],
    )


if __name__ == "__main__":
    main()
