#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: allocation
short_description: Manage an allocation of a Busbar appliance
version_added: 0.2.0
description:
  - Requests and releases allocations, which are shares of GPUs.
  - O(hold) says what keeps the allocation. With V(heartbeat) the module sends one heartbeat
    for an existing allocation, so only a task that repeats within 25 seconds holds it.
  - An active allocation is changed to O(percent), O(memory_bytes) and O(compute_mode) while its
    programs run. If another option differs, the module fails. O(lifetime_seconds) applies to the
    request, and is not compared.
  - O(state=suspended) moves the GPU memory of its programs to host memory, and O(state=active)
    moves it back. Its GPUs stay reserved. A call of a program makes it active as well.
    O(state=present) leaves it as it is.
  - Allocations that are being released, or have ended, count as absent. O(state=absent)
    releases all allocations of this name in the project.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  state:
    description:
      - V(present) requests the allocation, or changes its size and compute mode where an option
        differs.
      - V(absent) releases it.
      - V(suspended) and V(active) request it as well, and then suspend or resume it.
    type: str
    choices: [present, absent, suspended, active]
    default: present
  name:
    description: Name of the allocation.
    type: str
    required: true
  project:
    description: Name of the project.
    type: str
    default: default
  pool:
    description: Name of the requested pool, V(default) if omitted.
    type: str
  gpu_count:
    description: Number of GPUs, V(1) if omitted.
    type: int
  percent:
    description: Share of the compute of each GPU and, without O(memory_bytes), of its memory.
    type: int
  memory_bytes:
    description: Memory on each GPU. Without O(percent), compute is proportional to the memory.
    type: int
  compute_mode:
    description:
      - Meaning of the share of the compute, V(shared) if omitted.
      - V(shared) is in proportion to that of the others that use the GPU, V(capped) never more,
        V(guaranteed) at least, and what is idle, V(exclusive) whole GPUs; then O(percent) and
        O(memory_bytes) are ignored.
    type: str
    choices: [shared, capped, guaranteed, exclusive]
  same_node:
    description: Place all GPUs on one node.
    type: bool
  model:
    description: Substring of the GPU model, case-insensitive.
    type: str
  selector:
    description: Labels that each GPU or its node must have.
    type: dict
  min_cuda_version:
    description: CUDA version that the driver must support, such as V(12.4).
    type: str
  min_driver_version:
    description: Version that the driver must have at least, such as V(535.104).
    type: str
  priority:
    description: Higher priorities start first. Priorities from 100 on are for operators.
    type: int
  preemptible:
    description: The allocation may be evicted in favour of requests with a better claim.
    type: bool
  hold:
    description:
      - What keeps the allocation; it is released 25 seconds after the last one. V(heartbeat)
        if omitted.
      - V(heartbeat) means heartbeats and open sessions, V(session) open sessions once it is
        active.
      - V(lifetime) needs nothing until the end of O(lifetime_seconds), also while it is queued.
    type: str
    choices: [heartbeat, session, lifetime]
  lifetime_seconds:
    description: Time from activation to release. The pool can shorten it.
    type: int
  allow_pending:
    description: Accept the request also if it can never start with the registered GPUs.
    type: bool
  wait_seconds:
    description:
      - Wait until the allocation is active or suspended and has its size or, with
        O(state=absent), until its nodes have confirmed the release, for at most this time, up to
        60 seconds.
      - The time is not an error. RV(allocation.state) says whether the allocation is active,
        RV(allocation.resize) whether it has its size, and RV(allocation.suspension) why it was
        not suspended.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Request a quarter of a GPU and wait for it
  busbar.pool.allocation:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: nightly
    project: vision
    percent: 25
    hold: lifetime
    lifetime_seconds: 28800
    wait_seconds: 60

- name: Let it grow to a half, as soon as the capacity is free
  busbar.pool.allocation:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: nightly
    project: vision
    percent: 50

- name: Never give it more than its half from now on
  busbar.pool.allocation:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: nightly
    project: vision
    compute_mode: capped

- name: Suspend it over the night
  busbar.pool.allocation:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: nightly
    project: vision
    state: suspended
    wait_seconds: 60

- name: Release it
  busbar.pool.allocation:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: nightly
    project: vision
    state: absent
"""

RETURN = r"""
allocation:
  description: The allocation after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "nightly", "project": "vision", "percent": 25, "state": "active"}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

SIZE = {
    "percent": {"type": "int"},
    "memory_bytes": {"type": "int"},
    "compute_mode": {"type": "str", "choices": ["shared", "capped", "guaranteed", "exclusive"]},
}
FIXED = {
    "pool": {"type": "str"},
    "gpu_count": {"type": "int"},
    "same_node": {"type": "bool"},
    "model": {"type": "str"},
    "selector": {"type": "dict"},
    "min_cuda_version": {"type": "str"},
    "min_driver_version": {"type": "str"},
    "priority": {"type": "int"},
    "preemptible": {"type": "bool"},
    "hold": {"type": "str", "choices": ["heartbeat", "session", "lifetime"]},
}
KIND = Kind(
    "allocation",
    "allocations",
    identity=["name", "project"],
    changeable=list(SIZE),
    fixed=list(FIXED),
    at_creation=["lifetime_seconds", "allow_pending"],
    queries=["state=queued", "state=preparing", "state=active", "state=suspended"],
)
STATES = ["present", "absent", "suspended", "active"]
OPTIONS = {
    "state": {"type": "str", "choices": STATES, "default": "present"},
    "name": {"type": "str", "required": True},
    "project": {"type": "str", "default": "default"},
    **SIZE,
    **FIXED,
    "lifetime_seconds": {"type": "int"},
    "allow_pending": {"type": "bool"},
    "wait_seconds": {"type": "int", "default": 0},
}


def prepare(appliance, params):
    """Return labels as text and whole GPUs without a size, as the appliance does."""
    prepared = {}
    if params["selector"] is not None:
        prepared["selector"] = {k: str(v) for k, v in params["selector"].items()}
    if params["compute_mode"] == "exclusive":
        prepared.update(percent=None, memory_bytes=None)
    return prepared


def settle(module, appliance, allocation):
    """Suspend or resume the allocation if that is wanted and not under way."""
    suspension = allocation.get("suspension") or {}
    is_suspended = suspension.get("state") in ("suspending", "suspended", "waiting")
    wanted = module.params["state"]
    if wanted == "present" or is_suspended == (wanted == "suspended"):
        return False, allocation
    if module.check_mode:
        return True, allocation
    path, wait = f"allocations/{allocation['id']}", f"?wait={module.params['wait_seconds']}"
    if wanted == "active":
        return True, appliance.request("POST", path + "/resume" + wait)
    appliance.request("GET", path + wait)  # until it is active
    return True, appliance.request("POST", path + "/suspend" + wait)


def finish(module, appliance, before, allocation):
    """Renew the lease of an allocation that exists, and wait."""
    if module.check_mode:
        return allocation
    wait = f"?wait={module.params['wait_seconds']}"
    if module.params["state"] == "absent":
        for row in before:
            appliance.request("GET", f"allocations/{row['id']}{wait}")
        return allocation
    path = f"allocations/{allocation['id']}"
    if before and allocation["hold"] == "heartbeat":
        appliance.request("POST", path + "/heartbeat")
    return appliance.request("GET", path + wait)


def main():
    manage(KIND, OPTIONS, prepare=prepare, settle=settle, finish=finish)


if __name__ == "__main__":
    main()
