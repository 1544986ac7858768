"""Rights of a node's processes: all run without root, and the spawner has some capabilities."""

from __future__ import annotations

import ctypes
import os

SPAWNER_CAPABILITIES = {
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SYS_CHROOT": 18,
    "CAP_SYS_ADMIN": 21,
}
"""Names and numbers of what the spawner needs.

It makes namespaces and mounts, enters those of a running cage, and gives cages users of their own.
"""

_PR_SET_KEEPCAPS, _PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 8, 23, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAPABILITY_VERSION_3 = 0x20080522
_BITS = 32

_libc = ctypes.CDLL(None, use_errno=True)


class _Sets(ctypes.Structure):
    """Effective, permitted and inheritable capabilities; Linux has two such structures."""

    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def _header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)


def _permitted() -> int:
    sets = (_Sets * 2)()
    _check(_libc.capget(_header(), sets))
    low, high = (int(part.permitted) for part in sets)
    return low | high << _BITS


def _keep(mask: int) -> None:
    """Give up all capabilities but some, which stay permitted and inheritable."""
    sets = (_Sets * 2)()
    for i, part in enumerate(sets):
        part.permitted = part.inheritable = mask >> _BITS * i & 0xFFFFFFFF
    _check(_libc.capset(_header(), sets))


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _drop_from_bounding_set(kept: int) -> None:
    number = 0
    while (present := _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0)) >= 0:
        if present and not kept >> number & 1:
            _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        number += 1


def give_up_root(user: int) -> None:
    """Become a user without capabilities who can still give some of the spawner's to children.

    Children do not get them without `pass_to_spawner`, and no child can gain others. Capabilities
    that root itself lacks, as in a container, are left out.
    """
    wanted = sum(1 << number for number in SPAWNER_CAPABILITIES.values()) & _permitted()
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_from_bounding_set(wanted)
    _check(_libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    _keep(wanted)


def pass_to_spawner() -> None:
    """Let the program that this process executes next have the spawner's capabilities.

    Has no effect in a process that cannot pass any. Call it between fork and exec.
    """
    for number in SPAWNER_CAPABILITIES.values():
        _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0)
