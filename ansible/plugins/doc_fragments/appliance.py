# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  url:
    description: Of the appliance, such as C(https://busbar.example:8443).
    type: str
    required: true
  token:
    description: An API token; of a role that may do what is asked.
    type: str
    required: true
  ca_file:
    description: File with the appliance's CA, in PEM. C(GET /api/v1/ca) gives it; compare its fingerprint with the one that the appliance printed.
    type: path
    required: true
"""
