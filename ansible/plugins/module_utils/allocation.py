# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Hooks of the module for allocations: the size of whole GPUs, suspension, and the lease."""


def prepare(appliance, params):
    """Return whole GPUs without a size, as the appliance does."""
    is_whole = params["compute_mode"] == "exclusive"
    return {"percent": None, "memory_bytes": None} if is_whole else {}


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
