"""The documentation of the modules describes the options that they accept."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.collection import main, module_names
from tests.ansible.module_runner import load_plugin

FACTS = ("type", "required", "choices", "elements", "default")
Options = dict[str, dict[str, Any]]


def facts_of(options: Options) -> Options:
    return {name: {f: o[f] for f in FACTS if f in o} for name, o in options.items()}


def documented_options(collections: Path, module: str) -> Options:
    """Return the options in the documentation of a module and its fragments, as Ansible does.

    The module's own description of an option counts.
    """
    text = yaml.safe_load(load_plugin(collections, f"modules.{module}").DOCUMENTATION)
    options: Options = dict(text["options"])
    for fragment in text["extends_documentation_fragment"]:
        name = fragment.rpartition(".")[2]
        source = load_plugin(collections, f"doc_fragments.{name}").ModuleDocFragment
        options = yaml.safe_load(source.DOCUMENTATION)["options"] | options
    return facts_of(options)


@pytest.mark.parametrize("module", module_names())
def test_documentation_of_module_describes_the_accepted_options(
    collections: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted: Options = {}

    def capture(_: object, argument_spec: Options, **__: object) -> None:
        accepted.update(facts_of(argument_spec))
        raise SystemExit

    basic = importlib.import_module("ansible.module_utils.basic")
    monkeypatch.setattr(basic.AnsibleModule, "__init__", capture)
    with pytest.raises(SystemExit):
        load_plugin(collections, f"modules.{module}").main()
    assert documented_options(collections, module) == accepted


def test_help_of_the_build_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["collection", "--help"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0 and "usage: python -m deploy.collection" in capsys.readouterr().out
    assert not any(tmp_path.iterdir())
