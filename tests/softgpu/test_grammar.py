"""The PTX parser against NVIDIA's ptxas: what one rejects, the other rejects."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from deploy.supervisor import SOFTGPU
from tests.planted_program import planted_program
from tests.softgpu.grammar_forms import LINE, Form, forms
from tests.softgpu.grammar_verdicts import judge, read_table

# Forms that ptxas rejects and the software GPU accepts, with the reason.
LENIENT = {
    r"\.func z\(.*%t.*": "bodies of functions that no kernel calls are not checked",
    r"\.pragma \"a\", \"b\";": "unknown pragmas have no effect",
    r".*, inlined_at .*": "line numbers have no effect",
    r"\.version 9(9\.0)?": "the version has no effect",
    r"\.global \.b32 %tid;": "a special register is found before a variable of its name",
    r"mov\.u32 %r1, p\[0\];": "the first element of a scalar is itself",
    r".*\.calltargets (k|nowhere);.*": "an indirect call may reach every function of its address",
    r"cvt\.sat\.u8\.u8 %r1, %l2;": "the values fit in the type",
    r"\.weak \.entry %z .*;| ?(\.weak)? \.func .*;": "a declaration alone has no effect",
    r"movmatrix\..*": "a constant is a matrix of equal rows",
}
SAMPLE = 60  # forms that ptxas judges again
MOST_REFUSED = 0.03
"""Of the forms that ptxas accepts: 71 of 2,446 are refused, of which 35 have no meaning in CUDA."""


def verdicts(every: list[Form], folder: Path, translator: Path | None = None) -> list[str]:
    """Return for each form "accepted" or "line N: reason"."""
    path = folder / "forms.bin"
    path.write_text("".join(form.module() + "\0" for form in every))
    command = [str(translator or SOFTGPU / "softgpu-translate"), "--verdicts", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(every), done.stderr
    return lines


def accepted_though_invalid(every: list[Form], results: list[str]) -> list[str]:
    return [
        form.text
        for form, valid, result in zip(every, read_table(every), results, strict=True)
        if result == "accepted"
        and not valid
        and not any(re.fullmatch(pattern, form.text) for pattern in LENIENT)
    ]


@pytest.fixture(scope="module")
def every() -> list[Form]:
    return forms()


@pytest.fixture(scope="module")
def results(every: list[Form], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return verdicts(every, tmp_path_factory.mktemp("grammar"))


def test_there_are_ten_thousand_forms(every: list[Form]) -> None:
    assert len(every) > 10_000
    assert 1500 < sum(read_table(every)) < len(every) / 2


def test_form_that_ptxas_rejects_is_rejected(every: list[Form], results: list[str]) -> None:
    found = accepted_though_invalid(every, results)
    assert not found, "\n".join(found[:40])


def test_form_that_ptxas_accepts_is_accepted_or_refused_by_line(
    every: list[Form], results: list[str]
) -> None:
    valid = [(f, r) for f, v, r in zip(every, read_table(every), results, strict=True) if v]
    refused = [(f.text, r) for f, r in valid if r != "accepted"]
    wrong = [(text, r) for text, r in refused if not r.startswith(f"line {LINE}: ") or len(r) < 20]
    assert not wrong, wrong[:20]
    assert len(refused) <= MOST_REFUSED * len(valid), [r for _, r in refused]


def test_table_agrees_with_ptxas(every: list[Form], tmp_path: Path) -> None:
    chosen = random.Random(1).sample(list(zip(every, read_table(every), strict=True)), SAMPLE)
    judged = judge([form for form, _ in chosen], tmp_path)
    assert judged == [valid for _, valid in chosen]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(3+4)*2", 14),
        ("-5/2", -2),
        ("1 << 4 | 3", 19),
        ("0 ? 2 : 3", 3),
        ("~0 & 0xF0", 240),
        ("(.u64)-1 > 0", 1),
        ("-1 > 0", 0),
        ("WARP_SZ * 2", 64),
    ],
)
def test_constant_expression_has_the_value_of_its_number(
    expression: str, value: int, tmp_path: Path
) -> None:
    """The C of both is the same."""
    texts = [f"mov.s64 %l1, {e}; st.global.s64 [%lg], %l1;" for e in (expression, str(value))]
    path = tmp_path / "forms.ptx"
    digests = []
    for text in texts:
        path.write_text(Form(text).module())
        command = [str(SOFTGPU / "softgpu-translate"), "--digest", str(path)]
        digests.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert digests[0] == digests[1]
    assert "line" not in digests[0]


def test_parser_without_the_check_of_operands_is_noticed(every: list[Form], tmp_path: Path) -> None:
    source = "softgpu/ptx/operand_check.cc"
    translator = planted_program(
        tmp_path, "softgpu/softgpu-translate", source, "SOFTGPU_PLANTED_OPERANDS"
    )
    found = accepted_though_invalid(every, verdicts(every, tmp_path, translator))
    assert "add.u32 %r1, %f4, %r3;" in found or len(found) > 1000
