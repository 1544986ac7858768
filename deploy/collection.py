"""Sources of the Ansible collection, which `ansible-galaxy collection build` packs.

`python -m deploy.collection [FOLDER]` writes them, by default to build/collection: what is in
ansible/, and the modules for objects, whose options are the fields of the REST API.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import yaml

from deploy.ansible_modules import info_module, object_module, text_of
from deploy.api_fields import forms
from deploy.client_code import ROOT, openapi

SOURCE = ROOT / "ansible"
MODULES = "plugins/modules"


def declared_modules() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SOURCE / "modules.yml").read_text())
    return found


def module_names() -> list[str]:
    """Return the names of all modules of the collection."""
    written = {path.stem for path in (SOURCE / MODULES).glob("*.py")}
    made = {name for name, module in declared_modules().items() if "description" in module}
    return sorted(written | made | {f"{name}_info" for name in declared_modules()})


def write_collection(folder: Path) -> None:
    """Write the collection to a folder, which is replaced. Raises SystemExit for another one."""
    is_other = folder.exists() and any(folder.iterdir()) and not (folder / "galaxy.yml").exists()
    if is_other or folder.resolve() in (SOURCE, *SOURCE.parents):
        raise SystemExit(f"{folder} is no collection that was made here. Name an empty folder.")
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("modules.yml", "__pycache__")
    shutil.copytree(SOURCE, folder, ignore=ignored)
    known = forms(openapi())
    for name, module in declared_modules().items():
        form = known.get(name.replace("_", "-") + "s")
        if "description" in module:
            if form is None:
                raise ValueError(f"modules.yml: {name} has no operation that creates it")
            (folder / MODULES / f"{name}.py").write_text(object_module(name, module, form))
        (folder / MODULES / f"{name}_info.py").write_text(info_module(name, module, form))
    runtime = folder / "meta" / "runtime.yml"
    groups = {"action_groups": {"appliance": module_names()}}
    runtime.write_text(runtime.read_text() + text_of(groups))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.collection", description="Write the Ansible collection to a folder."
    )
    default = ROOT / "build" / "collection"
    parser.add_argument("folder", nargs="?", type=Path, default=default, help="where (%(default)s)")
    folder = parser.parse_args().folder
    write_collection(folder)
    print(folder)


if __name__ == "__main__":
    main()
