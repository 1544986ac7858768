"""No modifier or type of an instruction is ignored: it changes the C, is a hint, or is refused."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.planted_program import planted_program
from tests.softgpu.modifier_forms import Form, digests, forms, is_refusal, opcode, rejected_by_ptxas
from tests.softgpu.ptx_instructions import SUPPORTED

# Modifiers that may leave the C unchanged, by reason: words, and the instructions in which they
# have a meaning, as patterns of the opcodes of samples.
WITHOUT_EFFECT = {
    "there are no caches": {
        "ca cg cs cv": "ld.global.v4.u32 ld.shared.b64 suld.*",
        "lu": "ld.global.v4.u32 ld.shared.b64",
        "cg cs wb wt": "st.shared.v2.f32 sust.*",
        "nc": "ld.global.v4.u32",
        "L1::no_allocate L1::evict_last": "ld.global.v4.u32 ld.relaxed.* st.release.*",
        "L2::128B": "ld.*global.* cp.async.c?.*",
        "L2::evict_first": "createpolicy.*",
    },
    "accesses and fences are sequentially consistent for the whole device": {
        "cta cluster gpu sys relaxed release": "atom.* red.global.*",
        "acquire acq_rel": "atom.*",
        "cta": "bar.sync bar.arrive bar.red.* barrier.sync",
        "weak": "ld.global.v4.u32 ld.shared.b64 st.shared.v2.f32",
    },
    "copies are done at once, so their groups and waits need no code": {
        "bulk": "cp.async.commit_group cp.async.wait_group"
    },
    "the samples have the lanes that the modifier promises": {
        "sync": "bar.sync bar.warp.sync barrier.sync elect.sync ldmatrix.* match.* movmatrix.* "
        "redux.* shfl.* stmatrix.* vote.* wmma.*",
        "aligned": "barrier.sync",
        "uni": "bra ret",
    },
    "it is the default": {"rn": "add.f16 sub.ftz.f16 mul.f16x2", "base": "tex.*"},
    "conversions to integers always saturate": {"sat": "cvt.rzi.u8.f32"},
}
HINTS = [
    (word, pattern)
    for rows in WITHOUT_EFFECT.values()
    for words, patterns in rows.items()
    for word in words.split()
    for pattern in patterns.split()
]
PLANTED = "SOFTGPU_PLANTED_UNUSED"


def hints_for(form: Form) -> list[tuple[str, str]]:
    """Return the rows that allow the modifier of a form to change nothing."""
    own = opcode(form.sample).rstrip(";")
    return [(word, p) for word, p in HINTS if word == form.modifier and fnmatchcase(own, p)]


def unchanged(folder: Path, translator: Path | None = None) -> list[Form]:
    """Return the forms whose modifier is accepted and changes nothing."""
    samples = [s for group in SUPPORTED.values() for s in group]
    plain = dict(zip(samples, digests(samples, folder, translator), strict=True))
    every = list(forms())
    results = digests([f.text for f in every], folder, translator)
    return [
        form for form, digest in zip(every, results, strict=True) if digest == plain[form.sample]
    ]


def ignored(found: list[Form]) -> list[Form]:
    return [form for form in found if not hints_for(form)]


def test_every_modifier_is_used_or_refused_or_a_hint_of_its_instruction(tmp_path: Path) -> None:
    found = unchanged(tmp_path)
    wrong = ignored(found)
    assert not wrong, [f.text for f in wrong[:20]]
    assert set(HINTS) == {row for form in found for row in hints_for(form)}


def test_hint_is_valid_ptx(tmp_path: Path) -> None:
    """Behind or in front of the last modifier, ptxas accepts it, but for two that come earlier."""
    earlier = "tex.base.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%l1, {%r1}];"
    assert not rejected_by_ptxas([earlier, "bar.cta.red.popc.u32 %r1, 0, %p1;"], tmp_path)
    found = [
        f
        for f in unchanged(tmp_path)
        if f.modifier != "base" and (f.modifier != "cta" or ".red." not in f.sample)
    ]
    rejected = rejected_by_ptxas([f.text for f in found], tmp_path)
    valid = {(f.sample, f.modifier) for f in found if f.text not in rejected}
    assert {(f.sample, f.modifier) for f in found} == valid


@pytest.mark.parametrize(
    "text",
    [
        "add.cta.u32 %r1, %r2, %r3;",
        "atom.global.add.noftz.u32 %r1, [%lg], %r2;",
        "atom.global.L1::no_allocate.add.u32 %r1, [%lg], %r2;",
        "bar.arrive.sync 1, 64;",
        "cp.async.bulk.ca.commit_group;",
        "ld.global.gpu.u32 %r1, [%lg];",
        "ld.relaxed.gpu.global.ca.u32 %r1, [%lg];",
        "ld.shared.L1::no_allocate.u32 %r1, [%ls];",
        "ld.shared.nc.u32 %r1, [%ls];",
        "mbarrier.arrive.noComplete.shared.b64 %l1, [%ls];",
        "mbarrier.init.relaxed.cta.shared.b64 [%ls], 4;",
        "membar.gl.cta;",
        "nanosleep.u32.u32 100;",
        "prefetch.global.const.L2 [%lg];",
        "suld.b.1d.b32.nc.trap %r1, [%l1, {%r1}];",
        "tensormap.replace.tile.rank.global.b1024.b32.gpu [%lg], 1;",
    ],
)
def test_hint_of_another_instruction_is_refused(text: str, tmp_path: Path) -> None:
    [result] = digests([text], tmp_path)
    assert is_refusal(result)


@pytest.mark.parametrize(
    "text",
    [
        "bra.uni.uni T; T: mov.u32 %r1, 1;",
        "createpolicy.range.global.L2::evict_last.b64 %l1, [%lg], 64, 128;",
        "ld.global.ca.nc.f32 %f1, [%lg];",
        "ld.global.L1::evict_last.L2::cache_hint.L2::256B.u32 %r1, [%lg], %l1;",
        "ld.global.L2::evict_last.v4.b64 {%l1, %l2, %l3, %l4}, [%lg];",
        "mbarrier.arrive.noComplete.release.cta.shared.b64 %l1, [%ls], 2;",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%ls], 0;",
        "prefetch.const.tensormap [%lg];",
        "prefetch.global.L2::evict_last [%lg];",
        "red.global.add.noftz.f16x2 [%lg], %r1;",
        "st.global.L1::no_allocate.L2::cache_hint.u32 [%lg], %r1, %l1;",
    ],
)
def test_hint_of_the_instruction_is_accepted(text: str, tmp_path: Path) -> None:
    assert not rejected_by_ptxas([text], tmp_path)
    [result] = digests([text], tmp_path)
    assert not is_refusal(result)


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
    wrong = ignored(unchanged(tmp_path, translator))
    found = {(opcode(f.sample), f.modifier) for f in wrong}
    assert {("add.s16", "xorsign"), ("add.u32", "cta"), ("suld.b.2d.b32.trap", "nc")} <= found
    assert len(found) > 1000
