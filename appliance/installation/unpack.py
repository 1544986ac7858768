"""Part of client.sh: unpacks the archive below a folder, beside the version before it."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tarfile
import tempfile

archive, prefix, version = sys.argv[1:]
versions = os.path.join(prefix, "lib", "busbar-client")
commands = os.path.join(prefix, "bin")


def linked(command: str) -> str:
    """Return the version that the link of a command names, or "" if there is no command."""
    path = os.path.join(commands, command)
    if not os.path.lexists(path):
        return ""
    target = os.readlink(path) if os.path.islink(path) else ""
    if "busbar-client/" not in target:
        sys.exit(
            f"client.sh: {path} exists and is not of this script. Remove it first"
            " (of pip: pip uninstall busbar-client)."
        )
    parts = target.split("/")
    return parts[parts.index("busbar-client") + 1]


def unpack() -> None:
    """Unpack the archive beside the other versions and give it its name at the end."""
    fresh = tempfile.mkdtemp(prefix="new-", dir=versions)
    try:
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extraction_filter = tarfile.data_filter
            tar.extractall(fresh)  # noqa: S202 - its hash was compared
        os.replace(os.path.join(fresh, "busbar-client"), os.path.join(versions, version))
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def link(command: str) -> None:
    path = os.path.join(commands, command)
    target = f"../lib/busbar-client/{version}/bin/{command}"
    if os.path.lexists(path + ".new"):
        os.unlink(path + ".new")
    os.symlink(target, path + ".new")
    os.replace(path + ".new", path)


try:
    os.makedirs(versions, exist_ok=True)
    os.makedirs(commands, exist_ok=True)
    with open(os.path.join(versions, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second installation waits
        names = ("busbar", "busbar-python", "busbar-smi")
        previous = [linked(name) for name in names]
        if not os.path.isdir(os.path.join(versions, version)):
            unpack()
        for name in names:
            link(name)
        # Programs that run may still import from the version before this one.
        for old in set(os.listdir(versions)) - {"lock", version, *previous}:
            shutil.rmtree(os.path.join(versions, old), ignore_errors=True)
except (OSError, tarfile.TarError, EOFError) as error:
    sys.exit(
        f"client.sh: The client was not installed in {prefix}: {error}. Mend that, or choose"
        " another folder: sh client.sh --prefix FOLDER"
    )
