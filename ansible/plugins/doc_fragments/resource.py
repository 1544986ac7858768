# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  state:
    description:
      - V(present) creates the object, or changes it where an option differs.
      - V(absent) removes the object. Removal fails while other objects need it.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    support: full
    description: Reports whether the object would change.
  diff_mode:
    support: full
    description: Reports the object before and after the change.
"""
