#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: alarm_definition
short_description: Manage an alarm definition of a Busbar appliance
version_added: 0.2.0
description:
  - Creates, changes and deletes alarm definitions, which raise alarms for the objects whose
    condition holds.
  - An omitted option keeps its value. A definition that is to lose its O(threshold) or
    O(clear_threshold) must be removed and created again.
  - Definitions that came with the product can be changed and disabled, not deleted.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: Name of the definition.
    type: str
    required: true
  notes:
    description: Notes about the definition.
    type: str
  enabled:
    description: Whether the definition is evaluated.
    type: bool
  severity:
    description: Severity of its alarms. Needed to create a definition.
    type: str
    choices: [info, warning, critical]
  object_kind:
    description: Kind of the objects. Needed to create a definition.
    type: str
    choices: [appliance, node, gpu, allocation]
  condition:
    description: What raises an alarm. Needed to create a definition.
    type: str
    choices: [state, metric, event, xid, certificate_age, queue_wait, idle_held]
  states:
    description: States of the object, one of which raises the alarm (V(state)).
    type: list
    elements: str
  metric:
    description: Name of the metric (V(metric)).
    type: str
  comparison:
    description: Whether a value above or below the threshold raises the alarm (V(metric)).
    type: str
    choices: [above, below]
  threshold:
    description: Value of the metric, number of events, or seconds.
    type: float
  clear_threshold:
    description: Value of the metric beyond which a raised alarm stays.
    type: float
  event_kind:
    description: Kind of the events that are counted (V(event)).
    type: str
  xid_class:
    description: Class of the XID errors (V(xid)).
    type: str
    choices: [memory, bus, engine, application, any]
  window_seconds:
    description: Period in which events are counted.
    type: int
  raise_after_seconds:
    description: Time for which the condition must hold before the alarm is raised.
    type: int
  clear_after_seconds:
    description: Time for which it must not hold before the alarm is cleared.
    type: int
  site:
    description: Name of a site. The definition holds for what is below it. Empty for no site.
    type: str
  node:
    description: Name of a node. Empty for no node.
    type: str
  gpu:
    description: Node and index of a GPU, such as V(n1/0). Empty for no GPU.
    type: str
  pool:
    description: Name of a pool. Empty for no pool.
    type: str
  mail_users:
    description: Names of the users who get a mail.
    type: list
    elements: str
  webhook_url:
    description: Address that gets a POST when an alarm is raised and when it is cleared.
    type: str
  webhook_secret:
    description:
      - Key with which requests of the webhook are signed. Empty removes it.
      - The appliance does not show it, so it is sent only if the definition has none or
        O(webhook_url) changes. A change of O(webhook_url) without it removes it.
    type: str
  update_webhook_secret:
    description: Send O(webhook_secret) also if the definition has one. It then always changes.
    type: bool
    default: false
  script:
    description: Name of a script on the appliance.
    type: str
  enters_maintenance:
    description: Set the node of the alarm into maintenance.
    type: bool
"""

EXAMPLES = r"""
- name: Watch the temperature of a hall
  busbar.pool.alarm_definition:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: Hall 2 hot
    severity: critical
    object_kind: gpu
    condition: metric
    metric: temperature_celsius
    threshold: 80
    clear_threshold: 75
    raise_after_seconds: 300
    site: hall-2
    webhook_url: https://alarms.example/busbar
    webhook_secret: "{{ webhook_secret }}"

- name: Disable a definition of the product
  busbar.pool.alarm_definition:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    name: GPU hot
    enabled: false
"""

RETURN = r"""
alarm_definition:
  description: The alarm definition after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "Hall 2 hot", "severity": "critical", "condition": "metric", "threshold": 80.0}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, Secret, manage

OPTIONS = {
    "notes": {"type": "str"},
    "enabled": {"type": "bool"},
    "severity": {"type": "str", "choices": ["info", "warning", "critical"]},
    "object_kind": {"type": "str", "choices": ["appliance", "node", "gpu", "allocation"]},
    "condition": {
        "type": "str",
        "choices": [
            "state",
            "metric",
            "event",
            "xid",
            "certificate_age",
            "queue_wait",
            "idle_held",
        ],
    },
    "states": {"type": "list", "elements": "str"},
    "metric": {"type": "str"},
    "comparison": {"type": "str", "choices": ["above", "below"]},
    "threshold": {"type": "float"},
    "clear_threshold": {"type": "float"},
    "event_kind": {"type": "str"},
    "xid_class": {"type": "str", "choices": ["memory", "bus", "engine", "application", "any"]},
    "window_seconds": {"type": "int"},
    "raise_after_seconds": {"type": "int"},
    "clear_after_seconds": {"type": "int"},
    "site": {"type": "str"},
    "node": {"type": "str"},
    "gpu": {"type": "str"},
    "pool": {"type": "str"},
    "mail_users": {"type": "list", "elements": "str"},
    "webhook_url": {"type": "str"},
    "script": {"type": "str"},
    "enters_maintenance": {"type": "bool"},
}
KIND = Kind(
    "alarm_definition",
    "alarm-definitions",
    identity=["name"],
    changeable=list(OPTIONS),
    sets=["states", "mail_users"],
    secrets=[
        Secret("webhook_secret", "webhook_secret_is_set", "webhook_url", "update_webhook_secret")
    ],
)


def main():
    manage(
        KIND,
        {
            "name": {"type": "str", "required": True},
            **OPTIONS,
            "webhook_secret": {"type": "str", "no_log": True},
            "update_webhook_secret": {"type": "bool", "default": False},
        },
    )


if __name__ == "__main__":
    main()
