"""Part of client.sh: unpacks the archive below a folder, beside the version before it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tarfile
import tempfile
from typing import TextIO

archive, prefix, version = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3]
versions = os.path.join(prefix, "lib", "busbar-client")
commands = os.path.join(prefix, "bin")
undo = contextlib.ExitStack()
"""Removes what this installation made, if it fails."""


def stop(number: int, frame: object) -> None:
    sys.exit(f"client.sh: The installation was stopped by {signal.Signals(number).name}.")


def make_folder(path: str) -> None:
    """Make a folder and those above it."""
    if not os.path.isdir(path):
        make_folder(os.path.dirname(path))
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):  # by a second installation
                raise
        else:
            undo.callback(remove_if_empty, path)


def remove_if_empty(folder: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def lock_folders() -> TextIO:
    """Make the folders, and wait for another installation. Return the lock on them.

    Makes them again if the other one failed and removed them.
    """
    while True:
        is_new = not os.path.isdir(versions)
        with contextlib.suppress(FileNotFoundError):
            make_folder(versions)
            make_folder(commands)
            lock = open(os.path.join(versions, "lock"), "w")  # noqa: SIM115 - the caller closes it
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name)):
                if is_new:
                    undo.callback(remove_lock, lock.name)
                return lock


def remove_lock(path: str) -> None:
    if os.listdir(versions) == ["lock"]:
        os.unlink(path)


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
    is_new = not os.path.lexists(path)
    target = f"../lib/busbar-client/{version}/bin/{command}"
    if os.path.lexists(path + ".new"):
        os.unlink(path + ".new")
    os.symlink(target, path + ".new")
    os.replace(path + ".new", path)
    if is_new:
        undo.callback(os.unlink, path)


def install() -> None:
    names = ("busbar", "busbar-python", "busbar-smi")
    previous = [linked(name) for name in names]
    target = os.path.join(versions, version)
    if not os.path.isdir(target):
        unpack()
        if not any(previous):  # else commands may name it already
            undo.callback(shutil.rmtree, target, ignore_errors=True)
    for name in names:
        link(name)
    # Programs that run may still import from the version before this one.
    for old in set(os.listdir(versions)) - {"lock", version, *previous}:
        shutil.rmtree(os.path.join(versions, old), ignore_errors=True)


for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
        signal.signal(number, stop)
try:
    with undo, lock_folders(), undo:  # the inner one removes before the lock ends
        install()
        undo.pop_all()
except (OSError, tarfile.TarError, EOFError) as error:
    sys.exit(
        f"client.sh: The client was not installed in {prefix}: {error}. Mend that, or choose"
        " another folder: sh client.sh --prefix FOLDER"
    )
