# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  url:
    description: URL of the appliance, such as C(https://busbar.example:8443).
    type: str
    required: true
  token:
    description: API token of a user with the necessary privileges.
    type: str
    required: true
  ca_file:
    description:
      - File with the certificate of the appliance's CA in PEM format, from C(/install/ca.pem).
      - Compare its fingerprint with the one that the appliance printed.
    type: path
    required: true
"""
