#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: quota
short_description: Manage a quota of a Busbar appliance
version_added: 0.2.0
description:
  - Creates, changes and deletes quotas of users, projects and departments.
  - An omitted option keeps its value. To remove a limit, delete the quota and create it
    again.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  subject_kind:
    description: "Kind of the subject."
    type: str
    required: true
    choices: [user, project, department]
  subject:
    description: "Name of the user, project or department."
    type: str
    required: true
  quota_gpus:
    description: "Guaranteed number of GPUs, such as V(2.3)."
    type: float
  limit_gpus:
    description: "Maximum number of GPUs."
    type: float
  borrows:
    description: "The subject may exceed its quota while capacity is idle."
    type: bool
  weight:
    description: "Relative share of idle capacity."
    type: float
"""

EXAMPLES = r"""
- name: Create a quota
  busbar.pool.quota:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    subject_kind: project
    subject: vision
    quota_gpus: 2
    limit_gpus: 4
"""

RETURN = r"""
quota:
  description: The quota after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"subject_kind": "project", "subject": "vision", "quota_gpus": 2.0, "limit_gpus": 4.0}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "quota",
    "quotas",
    identity=["subject_kind", "subject"],
    changeable=["quota_gpus", "limit_gpus", "borrows", "weight"],
)
OPTIONS = {
    "subject_kind": {"type": "str", "required": True, "choices": ["user", "project", "department"]},
    "subject": {"type": "str", "required": True},
    "quota_gpus": {"type": "float"},
    "limit_gpus": {"type": "float"},
    "borrows": {"type": "bool"},
    "weight": {"type": "float"},
}


def main():
    manage(KIND, OPTIONS)


if __name__ == "__main__":
    main()
