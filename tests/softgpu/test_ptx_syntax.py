"""Legal PTX that compilers emit and that depends on scopes, guards or hints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.modifier_forms import digests, is_refusal
from tests.softgpu.test_instructions import kernel


def run(body: str, folder: Path, declarations: str = "") -> list[int]:
    """Return d of 32 threads; a is the number of the thread, b is 7."""
    ptx = kernel(body, 32).replace(".visible .entry", declarations + ".visible .entry", 1)
    arrays = [np.arange(32, dtype=np.uint32), np.full(32, 7, np.uint32), np.zeros(32, np.uint32)]
    job: dict[str, Any] = {"ptx": ptx, "kernel": "k", "grid": 1, "block": 32}
    [result] = run_in_child([job | {"arrays": [*arrays, np.zeros(32, np.uint32)]}], folder)
    assert isinstance(result, list), result
    return [int(v) for v in result[3]]


def test_blocks_may_use_a_label_again(tmp_path: Path) -> None:
    block = "{{ .reg .pred %s; setp.lt.u32 %s, %a, {}; @%s bra skip; add.u32 %d, %d, 1; skip: }}"
    body = f"mov.u32 %d, 0; {block.format(8)} {block.format(16)}"
    assert run(body, tmp_path) == [(t >= 8) + (t >= 16) for t in range(32)]


def test_label_of_a_nested_block_hides_the_outer_one(tmp_path: Path) -> None:
    body = "mov.u32 %d, 1; { bra over; mov.u32 %d, 2; over: } bra over; mov.u32 %d, 3; over:"
    assert run(body, tmp_path) == [1] * 32


def test_label_twice_in_one_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="defined twice"):
        run("{ over: mov.u32 %d, 2; over: }", tmp_path)


@pytest.mark.parametrize("sync", ["", "bar.sync 0;"])
def test_guarded_indexed_branch_keeps_other_lanes(sync: str, tmp_path: Path) -> None:
    body = f"""{sync} and.b32 %t, %a, 1; setp.ge.u32 %q, %a, 8; mov.u32 %d, 5;
list: .branchtargets even, odd;
@%q brx.idx %t, list;
mov.u32 %d, 9; bra done;
even: mov.u32 %d, 20; bra done;
odd: mov.u32 %d, 21;
done: {sync}"""
    assert run(body, tmp_path) == [9 if t < 8 else 20 + t % 2 for t in range(32)]


@pytest.mark.parametrize("size", ["0", "%u", "%q"])
def test_asynchronous_copy_of_no_bytes_reads_no_source(size: str, tmp_path: Path) -> None:
    body = f""".shared .align 16 .b8 buffer[512]; .reg .b32 %s;
mov.u32 %u, 0; setp.eq.u32 %q, %u, 0; mov.u64 %w, 0;
mov.u32 %s, buffer; shl.b32 %t, %a, 4; add.u32 %s, %s, %t; st.shared.b32 [%s+4], 3;
cp.async.ca.shared.global [%s], [%w], 16, {size}; cp.async.wait_all; ld.shared.b32 %d, [%s+4];"""
    assert run(body, tmp_path) == [0] * 32


def test_first_element_of_an_array_is_its_address(tmp_path: Path) -> None:
    body = ".reg .b64 %x; mov.u64 %x, table[0]; ld.global.b32 %d, [%x+4];"
    assert run(body, tmp_path, ".global .b32 table[2] = {4, 6};\n") == [6] * 32


def test_element_of_an_array_is_loaded_and_has_an_address(tmp_path: Path) -> None:
    body = """.reg .b64 %x; .reg .b32 %y<3>; ld.global.b32 %y0, table[1]; mov.u64 %x, table[3];
ld.global.b32 %y1, [%x]; st.global.b32 table[0], %y1; ld.global.b32 %y2, table[0];
mad.lo.u32 %d, %y0, 100, %y2;"""
    declarations = ".global .b32 table[4] = {4, 6, 8, 9};\n"
    assert run(body, tmp_path, declarations) == [609] * 32


@pytest.mark.parametrize("operand", ["scalar[1]", "scalar[%t]", "table[%q]", "unknown[1]"])
def test_element_of_no_array_is_refused_by_name(operand: str, tmp_path: Path) -> None:
    declarations = ".global .b32 scalar;\n.global .b32 table[4];\n"
    with pytest.raises(AssertionError, match=operand.split("[", maxsplit=1)[0]):
        run(f".reg .b64 %x; mov.u64 %x, {operand};", tmp_path, declarations)


@pytest.mark.parametrize(
    "index",
    [
        "mov.u64 %x, table[%a];",
        ".reg .s16 %i; cvt.s16.s32 %i, %a; mov.u64 %x, table[%i];",
        ".reg .b64 %y; cvt.u64.u32 %y, %a; add.u64 %y, %y, 0x500000000; mov.u64 %x, table[%y];",
    ],
)
def test_register_in_brackets_is_an_index_of_32_bits(index: str, tmp_path: Path) -> None:
    """As in the machine code of ptxas: it is multiplied by the size of a scalar."""
    declarations = f".global .b32 table[32] = {{{', '.join(str(3 * t) for t in range(32))}}};\n"
    body = f".reg .b64 %x; {index} ld.global.b32 %d, [%x];"
    assert run(body, tmp_path, declarations) == [3 * t for t in range(32)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mov.u64 %w, table[%a+4];", "expected '\\]'"),
        ("mov.u64 %w, table[table[%a]];", "expected '\\]'"),
        ("mov.u64 %w, four[%a];", "is no element of an array"),
        ("mov.b64 %w, {table[4], %a};", "is no sum"),
        ("mov.b64 %w, {%a+4, %a};", "is no sum"),
        ("mov.b64 %w, {{{{{%a, %a}, %a}, %a}, %a}, %a};", "nested"),
        ("mov.u64 %w, 0x80000000000000000;", "constant overflow"),
        ("mov.u64 %w, 92233720368547758080;", "constant overflow"),
    ],
)
def test_form_that_ptxas_rejects_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=reason):
        run(text, tmp_path, ".global .b32 table[32];\n.global .v4 .b32 four;\n")


@pytest.mark.parametrize(
    ("register", "value", "expected"),
    [(".u32", -1, 7), (".s32", -20, -12), (".s16", -20, -12), (".u16", -1, 7)],
)
def test_sum_has_the_type_of_its_register(
    register: str, value: int, expected: int, tmp_path: Path
) -> None:
    """Also if it is moved to a wider one."""
    body = f""".reg {register} %r; .reg .b64 %x; mov.b{register[2:]} %r, {value};
mov.u64 %x, %r+8; shr.u64 %x, %x, 3; cvt.u32.u64 %d, %x;"""
    assert run(body, tmp_path) == [(expected % 2**64 >> 3) % 2**32] * 32


def test_load_of_an_element_by_a_register_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"table\[register\] is supported in mov only"):
        run("ld.global.b32 %d, table[%t];", tmp_path, ".global .b32 table[4];\n")


def test_sum_of_a_register_and_a_number_is_moved(tmp_path: Path) -> None:
    body = "mov.u64 %w, %ap+8; add.u64 %w, %w, %off; ld.global.b32 %d, [%w+-4]; mov.u32 %d, %d+5;"
    assert run(body, tmp_path)[:31] == [t + 6 for t in range(31)]


def test_low_half_of_an_address_is_moved(tmp_path: Path) -> None:
    body = """.reg .b64 %x; .reg .b32 %y; mov.u64 %x, table; cvt.u32.u64 %y, %x;
mov.u32 %d, table+12; sub.u32 %d, %d, %y;"""
    assert run(body, tmp_path, ".global .b32 table[4];\n") == [12] * 32


@pytest.mark.parametrize("sync", ["", "bar.sync 0;"])
def test_vector_register_is_its_elements(sync: str, tmp_path: Path) -> None:
    """A vector is loaded, stored, taken apart and put together, also one of several by number."""
    body = f""".reg .v4 .b32 %x<2>; .reg .v2 .b32 y; .reg .b64 %z;
mov.u64 %w, table; ld.global.v4.b32 %x1, [%w]; {sync}
add.u32 %x1.x, %x1.x, %a; mov.b32 %x1.g, %x1.a; st.global.v4.b32 [%w+16], %x1; {sync}
mov.b64 %z, {{%x1.x, %x1.y}}; mov.b64 y, %z; mad.lo.u32 %d, y.y, 1000, y.r; {sync}
mad.lo.u32 %d, %x1.b, 100000, %d;"""
    declarations = ".global .align 16 .b32 table[8] = {1, 2, 3, 4};\n"
    assert run(body, tmp_path, declarations) == [304001 + t for t in range(32)]


@pytest.mark.parametrize(
    "body",
    [
        ".reg .v2 .b32 x; mov.b32 %d, x.z;",
        ".reg .v4 .b64 x;",
        ".reg .v2 .pred x;",
        ".reg .v2 .b32 x; mov.b32 %d, x.q;",
        ".reg .v2 .b32 x; add.u32 %d, x, 1;",
        ".reg .v2 .b32 x; x: add.u32 %d, %a, 1;",
    ],
)
def test_vector_register_without_a_meaning_is_refused(body: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="error"):
        run(body, tmp_path)


def test_declaration_of_several_variables(tmp_path: Path) -> None:
    body = """.shared .b32 one, two[32]; .reg .b32 %s; mov.u32 %s, two; shl.b32 %t, %a, 2;
add.u32 %s, %s, %t; st.shared.b32 [%s], %a; st.shared.b32 [one], 1; ld.shared.b32 %d, [%s];
ld.global.b32 %u, [four]; add.u32 %d, %d, %u; ld.global.b32 %u, [five+4]; add.u32 %d, %d, %u;"""
    declarations = ".global .b32 four = 400, five[2] = {5, 50};\n"
    assert run(body, tmp_path, declarations) == [450 + t for t in range(32)]


@pytest.mark.parametrize("space", ["global", "shared", "const"])
@pytest.mark.parametrize("alignment", [128, 8192, 65536])
def test_variable_is_aligned(space: str, alignment: int, tmp_path: Path) -> None:
    body = f""".reg .b64 %x; mov.u64 %x, table; and.b64 %x, %x, {alignment - 1};
cvt.u32.u64 %d, %x; mov.u64 %x, other; ld.{space}.u32 %t, [table+4]; add.u32 %d, %d, %t;"""
    value = "" if space == "shared" else " = {0, 3}"
    declarations = f".{space} .b8 other;\n.{space} .align {alignment} .b32 table[2]{value};\n"
    if space == "shared":
        body = "st.shared.u32 [table+4], 3; " + body
    assert run(body, tmp_path, declarations) == [3] * 32


def test_number_keeps_its_low_64_bits(tmp_path: Path) -> None:
    numbers = ["18446744073709551618", "0x1FFFFFFFFFFFFFFFF", "-18446744073709551618"]
    body = "mov.u32 %d, 0; .reg .b64 %x; .reg .pred %y; " + "".join(
        f"mov.u64 %x, {n}; setp.eq.u64 %y, %x, {int(n, 0) % 2**64}; @%y add.u32 %d, %d, 1; "
        for n in numbers
    )
    assert run(body, tmp_path) == [3] * 32


def test_variable_of_bits_gets_the_bits_of_a_float(tmp_path: Path) -> None:
    body = """.reg .b64 %x; ld.global.b64 %x, [wide]; shr.b64 %x, %x, 8; cvt.u32.u64 %d, %x;
ld.global.u8 %t, [narrow]; add.u32 %d, %d, %t;"""
    declarations = ".global .b64 wide = 0f3F800000;\n.global .b8 narrow = 0f3F800012;\n"
    assert run(body, tmp_path, declarations) == [0x3F8000 + 0x12] * 32


def test_label_with_the_name_of_a_register_has_no_effect(tmp_path: Path) -> None:
    assert run("%t: add.u32 %d, %a, 1;", tmp_path) == [t + 1 for t in range(32)]
    with pytest.raises(AssertionError, match="label does not exist"):
        run("%t: add.u32 %d, %a, 1; bra %t;", tmp_path)


TEX = "{%f1, %f2, %f3, %f4}, [%l1, "
MMA = (
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32"
    ".ue8m0 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4}, "
)


@pytest.mark.parametrize(
    ("form", "usual"),
    [
        (f"tex.level.2d.v4.f32.f32 {TEX}{{%f5, %f6}}], {{{n}}};", f"{TEX}{{%f5, %f6}}], %r1;")
        for n in ("%r1", "%r1, %r2", "%r1, %r2, %r3, %r4")
    ]
    + [
        (f"tex.1d.v4.f32.s32 {TEX}{{%r1, %f1, %f2, %f3}}];", f"{TEX}{{%r1}}];"),
        (f"tex.2d.v4.f32.f32 {TEX}%f5];", f"{TEX}{{%f5, 0f00000000}}];"),
        ("suld.b.a1d.b8.clamp %h1, [%l1, %r1];", "%h1, [%l1, {%r1, 0}];"),
        ("suld.b.a2d.b8.clamp %h1, [%l1, %r1];", "%h1, [%l1, {%r1, 0, 0, 0}];"),
        ("fence.proxy.tensormap::generic.release.sys.global;", ""),
        (f"{MMA}{{%r7, %r1}}, {{0, 1}}, %r8, {{3, 2}};", "%r7, {0, 1}, %r8, {3, 2};"),
        (f"{MMA}%r7, {{0, 1}}, 0f3F800000, {{3, 2}};", None),
        ("tensormap.replace.tile.box_dim.global.b1024.b32 [%ls], 1, s+4;", None),
        ("txq.level.height.b32 %r1, [%l1], s+4;", None),
        ("fence.proxy.tensormap::generic.acquire.gpu [%ls], 128;", None),
    ],
)
def test_form_that_ptxas_takes_for_a_usual_one_has_its_code(
    form: str, usual: str | None, tmp_path: Path
) -> None:
    """Elements that are not used count for nothing; those that are missing are 0."""
    head = MMA if form.startswith(MMA) else form.split(maxsplit=1)[0] + " "
    texts = [form] if usual is None else [form, head + usual]
    if usual == "":
        texts[1] = form.replace(".global", "")
    found = digests(texts, tmp_path)
    assert not any(is_refusal(digest) for digest in found), found
    assert len(set(found)) == 1


def test_clusters_are_thread_blocks(tmp_path: Path) -> None:
    """The registers of clusters are those of blocks; a fourth dimension is 0."""
    body = """.reg .b32 %y<8>; mov.u32 %y0, %clusterid.x; mov.u32 %y1, %nclusterid.x;
mov.u32 %y2, %cluster_nctaid.y; mov.u32 %y3, %cluster_ctaid.z; mov.u32 %y4, %nctaid.w;
fence.acq_rel.cluster; add.u64 %w, %ap, %off; ld.relaxed.cluster.global.b32 %y5, [%w];
mad.lo.u32 %d, %y1, 10, %y2; mad.lo.u32 %d, %y0, 1000, %d; add.u32 %d, %d, %y3;
add.u32 %d, %d, %y4; mad.lo.u32 %d, %y5, 100, %d;"""
    assert run(body, tmp_path) == [11 + 100 * t for t in range(32)]


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
@pytest.mark.parametrize(
    ("word", "halves"), [("lt", 0b01), ("ge", 0b00), ("geu", 0b10), ("nan", 0b10), ("neu", 0b11)]
)
def test_comparison_of_halves(kind: str, word: str, halves: int, tmp_path: Path) -> None:
    """The lower halves are 1 and 2, the upper ones NaN and 2."""
    one, two, nan = (0x3C00, 0x4000, 0x7E00) if kind == "f16x2" else (0x3F80, 0x4000, 0x7FC0)
    body = f""".reg .b32 %y<2>; .reg .pred %x<2>; mov.b32 %y0, {nan << 16 | one};
mov.b32 %y1, {two << 16 | two}; setp.{word}.{kind} %x0|%x1, %y0, %y1;
selp.u32 %d, 1, 0, %x0; @%x1 add.u32 %d, %d, 2;"""
    assert run(body, tmp_path) == [halves] * 32


def test_cache_policy_is_a_hint(tmp_path: Path) -> None:
    body = ".reg .b64 %x; createpolicy.fractional.L2::evict_last.b64 %x, 1.0; add.u64 %ap, %ap, 4;"
    body += "ld.global.L2::cache_hint.b32 %d, [%ap], %x;"
    assert run(body, tmp_path) == [1] * 32


def test_address_of_a_parameter_fits_in_a_register_of_32_bits(tmp_path: Path) -> None:
    body = """.reg .b64 %x; mov.u32 %t, pa; add.u32 %t, %t, 8; ld.param.u64 %x, [%t];
mul.wide.u32 %w, %a, 4; add.u64 %x, %x, %w; ld.global.b32 %d, [%x];"""
    assert run(body, tmp_path) == [7] * 32


@pytest.mark.parametrize("move", ["mov.u32 %t, pa; cvt.u64.u32 %x, %t;", "mov.u64 %x, pa;"])
def test_generic_address_of_a_parameter(move: str, tmp_path: Path) -> None:
    body = f""".reg .b64 %x; {move} cvta.param.u64 %x, %x; ld.u64 %x, [%x+8];
mul.wide.u32 %w, %a, 4; add.u64 %x, %x, %w; ld.global.b32 %d, [%x];"""
    assert run(body, tmp_path) == [7] * 32


@pytest.mark.parametrize("sync", ["", "bar.sync 0;"])
def test_address_of_a_local_variable_fits_in_a_register_of_32_bits(
    sync: str, tmp_path: Path
) -> None:
    body = f""".local .align 8 .b8 frame[16]; .reg .b64 %x; .reg .b32 %y<2>; {sync}
mov.b32 %t, frame; st.local.v2.b32 [%t], {{%a, %b}}; add.u32 %t, %t, 8; st.local.b32 [%t], 5;
{sync} cvt.u64.u32 %x, %t; cvta.local.u64 %x, %x; ld.b32 %y0, [%x+-8]; ld.b32 %y1, [%x];
ld.local.b32 %d, [%t+-4]; add.u32 %d, %d, %y0; add.u32 %d, %d, %y1;"""
    assert run(body, tmp_path) == [12 + t for t in range(32)]


@pytest.mark.parametrize("sync", ["", "bar.sync 0;"])
def test_nanosleep_takes_its_time(sync: str, tmp_path: Path) -> None:
    body = f""".reg .b64 %x<3>; {sync} mov.u64 %x0, %clock64; {sync} nanosleep.u32 32000; {sync}
mov.u64 %x1, %clock64; sub.u64 %x2, %x1, %x0; cvt.u32.u64 %t, %x2; set.ge.u32.u32 %d, %t, 31000;"""
    assert run(body, tmp_path) == [0xFFFFFFFF] * 32


def test_parameter_of_a_register_is_not_taken_for_uniform(tmp_path: Path) -> None:
    body = """.reg .b64 %x; mov.u64 %x, pa; and.b32 %t, %a, 1; shl.b32 %t, %t, 3;
cvt.u64.u32 %w, %t; add.u64 %x, %x, %w; ld.param.u64 %x, [%x]; ld.global.b32 %d, [%x];"""
    assert run(body, tmp_path) == [7 if t % 2 else 0 for t in range(32)]
