"""No modifier or type of an instruction is ignored: it changes the C, is a hint, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted_program import planted_program
from tests.softgpu.modifier_forms import Form, digests, forms, is_refusal, opcode, rejected_by_ptxas
from tests.softgpu.ptx_instructions import SUPPORTED

# Modifiers that may leave the C unchanged, with the reason.
WITHOUT_EFFECT = {
    "there are no caches": "ca cg cs lu cv wb wt nc unified L1::no_allocate L1::evict_last "
    "L2::128B L2::evict_first L2::cache_hint L1 L2",
    "accesses and fences are sequentially consistent for the whole device": "cta cluster gpu sys "
    "gl weak relaxed acquire release acq_rel sc proxy alias async noComplete",
    "copies are done at once, so their groups and waits need no code": "bulk",
    "the samples have the lanes that the modifier promises": "sync aligned uni",
    "it is the default": "rn base",
    "conversions to integers always saturate": "sat",
    "atomic additions never flush": "noftz",
    "the layout of a fragment does not depend on its matrix": "row col",
    "a policy of caches": "cvt fractional range",
    "the sample names it already": "global local const param u32 b32",
}
HINTS = {word for words in WITHOUT_EFFECT.values() for word in words.split()}
PLANTED = "SOFTGPU_PLANTED_UNUSED"


def ignored(folder: Path, translator: Path | None = None) -> list[Form]:
    """Return the forms whose modifier is accepted, changes nothing and is no hint."""
    samples = [s for group in SUPPORTED.values() for s in group]
    plain = dict(zip(samples, digests(samples, folder, translator), strict=True))
    every = list(forms())
    results = digests([f.text for f in every], folder, translator)
    return [
        form
        for form, digest in zip(every, results, strict=True)
        if digest == plain[form.sample] and form.modifier not in HINTS
    ]


def test_every_modifier_is_used_or_refused(tmp_path: Path) -> None:
    found = ignored(tmp_path)
    assert not found, [f.text for f in found[:20]]


def test_saturation_and_rounding_are_no_hints_for_arithmetic(tmp_path: Path) -> None:
    """`sat` and `rn` are hints where the result is saturated or rounded so in any case."""
    texts = {
        "add.sat.u32 %r1, %r2, %r3;": False,
        "cvt.rn.f64.f32 %d1, %f2;": False,
        "add.rn.u32 %r1, %r2, %r3;": False,
        "cvt.rzi.sat.u8.f32 %r1, %f2;": True,
        "add.rn.f16 %h1, %h2, %h3;": True,
    }
    results = digests(list(texts), tmp_path)
    assert [not is_refusal(r) for r in results] == list(texts.values()), results


def test_refusal_names_instruction_modifier_and_line(tmp_path: Path) -> None:
    [result] = digests(["add.xorsign.f32 %f1, %f2, %f3;"], tmp_path)
    assert result == (
        "line 4: instruction add.xorsign.f32 is not supported by the software GPU: "
        "modifier .xorsign"
    )


def test_accepted_arithmetic_is_valid_ptx(tmp_path: Path) -> None:
    """A modifier that an arithmetic instruction uses is one that ptxas accepts."""
    arithmetic = ("min", "max", "mul", "div", "abs", "neg", "rcp", "sqrt", "rsqrt", "sin", "ex2")
    every = [f for f in forms() if opcode(f.sample).split(".")[0] in arithmetic]
    results = digests([f.text for f in every], tmp_path)
    accepted = [f.text for f, r in zip(every, results, strict=True) if not is_refusal(r)]
    assert len(accepted) > 20
    assert not rejected_by_ptxas(accepted, tmp_path)


@pytest.mark.long
def test_translator_without_the_check_is_noticed(tmp_path: Path) -> None:
    source = "softgpu/emit/modifiers.cc"
    translator = planted_program(tmp_path, "softgpu/softgpu-translate", source, PLANTED)
    found = {(opcode(f.sample), f.modifier) for f in ignored(tmp_path, translator)}
    assert ("add.s16", "xorsign") in found
    assert len(found) > 1000
