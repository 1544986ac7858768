"""cp.async.bulk, its copies of boxes of tensors, reductions and tensor maps, against NumPy.

The kernels make their tensor maps by tensormap.replace.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child

Array = np.ndarray[Any, Any]
TYPES = {"u1": 0, "u2": 1, "u4": 2, "i4": 3, "u8": 4, "i8": 5, "f2": 6, "f4": 7, "f8": 9}
"""Numbers of tensormap.replace.tile.elemtype."""
FLUSHED = 8
TILE = 8192
DIMENSIONS = range(5)
BEHIND = np.full(4096, 0xBB, np.uint8)
"""The bytes behind a tensor in memory."""
FAULT, TRAP = 700, 719

# The place of each chunk of 16 bytes of a line of 128 bytes, by the number of the line: the tables
# of the PTX manual. Modes: (swizzle, atomicity).
CHUNKS = {
    (0, 0): ["01234567"],
    (1, 0): ["01234567", "10325476"],
    (2, 0): ["01234567", "10325476", "23016745", "32107654"],
    (3, 0): [
        "01234567",
        "10325476",
        "23016745",
        "32107654",
        "45670123",
        "54761032",
        "67452301",
        "76543210",
    ],
    (3, 1): ["01234567", "23016745", "45670123", "67452301"],
    (3, 3): ["01234567", "45670123"],
}


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory and its map. Sizes and boxes begin with the innermost dimension."""

    data: Array
    box: tuple[int, ...]
    step: tuple[int, ...] = ()
    swizzle: tuple[int, int] = (0, 0)
    fill: int = 0
    kind: int = -1

    @property
    def rank(self) -> int:
        return self.data.ndim

    @property
    def steps(self) -> tuple[int, ...]:
        return self.step or (1,) * self.rank

    @property
    def counts(self) -> tuple[int, ...]:
        """The elements of a box, outermost dimension first."""
        pairs = list(zip(self.box, self.steps, strict=True))
        return tuple(-(-b // s) if i else b for i, (b, s) in enumerate(pairs))[::-1]

    @property
    def byte_count(self) -> int:
        return int(np.prod(self.counts)) * self.data.itemsize

    def replace(self) -> str:
        """Return the instructions that make the map at [map]."""
        d = self.data
        fields = [
            ("rank", "b32", "", self.rank - 1),
            ("elemtype", "b32", "", TYPES[d.dtype.str[1:]] if self.kind < 0 else self.kind),
            ("interleave_layout", "b32", "", 0),
            ("swizzle_mode", "b32", "", self.swizzle[0]),
            ("swizzle_atomicity", "b32", "", self.swizzle[1]),
            ("fill_mode", "b32", "", self.fill),
        ]
        for i in range(self.rank):
            fields += [
                ("global_dim", "b32", f"{i}, ", d.shape[::-1][i]),
                ("box_dim", "b32", f"{i}, ", self.box[i]),
                ("element_stride", "b32", f"{i}, ", self.steps[i]),
            ]
        fields += [
            ("global_stride", "b64", f"{i}, ", d.strides[::-1][i + 1]) for i in range(self.rank - 1)
        ]
        lines = ["tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %tensor;"]
        for name, kind, ordinal, value in fields:
            head = f"tensormap.replace.tile.{name}.shared::cta.b1024.{kind} [map], {ordinal}"
            constant = name in ("elemtype", "fill_mode") or name.startswith(("swizzle", "inter"))
            register = "%r9" if kind == "b32" else "%l9"
            lines.append(
                f"{head}{value};"
                if constant
                else f"mov.{kind} {register}, {value}; {head}{register};"
            )
        return "\n".join(lines)

    def inside(self, where: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the indices in the box and in the tensor of the elements that it has."""
        steps = (1, *self.steps[1:])
        found = []
        for at in itertools.product(*map(range, self.counts)):
            index = tuple(w + i * s for w, i, s in zip(where, at[::-1], steps, strict=True))[::-1]
            if all(0 <= i < n for i, n in zip(index, self.data.shape, strict=True)):
                found.append((at, index))
        return found

    def tile(self, where: tuple[int, ...]) -> Array:
        """Return the box at a place, as it lies in shared memory."""
        box = np.zeros(self.counts, self.data.dtype)
        if self.fill:
            box[...] = np.nan
        for at, index in self.inside(where):
            box[at] = self.data[index]
        return self.swizzled(box.tobytes())

    def swizzled(self, content: bytes) -> Array:
        rows = CHUNKS[self.swizzle]
        out = np.zeros(-(-len(content) // 128) * 128, np.uint8)
        for i in range(0, len(content), 16):
            line, chunk = divmod(i // 16, 8)
            place = int(rows[line % len(rows)][chunk])
            out[line * 128 + place * 16 : line * 128 + place * 16 + 16] = list(content[i : i + 16])
        return out[: len(content)]


def program(tensor: Tensor, body: str) -> str:
    """Return a kernel of one warp: makes the map at [%map], then the body, then tile to out.

    The body may use %choice and %at0 to %at4, which are parameters.
    """
    return f""".version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 tensor, .param .u64 in, .param .u64 out, .param .u64 map_at,
  .param .u32 choice{"".join(f", .param .u32 at{i}" for i in DIMENSIONS)}) {{
.reg .b32 %r<12>, %thread, %choice, %at<5>; .reg .pred %p<4>;
.reg .b64 %l<12>, %tensor, %map, %in, %out;
.shared .align 1024 .b8 tile[{TILE}]; .shared .align 128 .b8 map[128]; .shared .b64 bar;
ld.param.u64 %tensor, [tensor]; ld.param.u64 %map, [map_at];
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %choice, [choice];
{" ".join(f"ld.param.u32 %at{i}, [at{i}];" for i in DIMENSIONS)}
mov.u32 %thread, %tid.x; setp.ne.u32 %p1, %thread, 0;
shl.b32 %r1, %thread, 2; mov.u32 %r2, map; add.u32 %r2, %r2, %r1; st.shared.b32 [%r2], 0;
cvt.u64.u32 %l1, %r1; add.u64 %in, %in, %l1; add.u64 %out, %out, %l1;
mov.u32 %r3, 0; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;
IN: ld.global.b32 %r4, [%in]; st.shared.b32 [%r2], %r4;
add.u64 %in, %in, 128; add.u32 %r2, %r2, 128; add.u32 %r3, %r3, 128;
setp.lt.u32 %p2, %r3, {TILE}; @%p2 bra IN;
bar.warp.sync -1; @%p1 bra MADE;
{tensor.replace()}
mbarrier.init.shared.b64 [bar], 1;
MADE: bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
  [%map], [map], 128;
fence.proxy.tensormap::generic.acquire.gpu [%map], 128; fence.proxy.async.shared::cta;
@%p1 bra WAIT;
{body}
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;
mov.u32 %r3, 0; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;
OUT: ld.shared.b32 %r4, [%r2]; st.global.b32 [%out], %r4;
add.u64 %out, %out, 128; add.u32 %r2, %r2, 128; add.u32 %r3, %r3, 128;
setp.lt.u32 %p2, %r3, {TILE}; @%p2 bra OUT;
ret; }}
"""


def expect(count: int) -> str:
    return f"mbarrier.arrive.expect_tx.shared.b64 _, [bar], {count};"


def vector(where: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, where)) + "}"


def place(tensor: Tensor, where: tuple[int, ...]) -> str:
    """Return the coordinates. Without `where` they are parameters of the kernel."""
    return vector(where) if where else "{" + ", ".join(f"%at{i}" for i in range(tensor.rank)) + "}"


def choice(bodies: Iterable[str]) -> str:
    """Return a body that executes the one with the number %choice."""
    return "\n".join(
        f"setp.ne.u32 %p2, %choice, {i}; @%p2 bra AFTER{i};\n{body}\nAFTER{i}:"
        for i, body in enumerate(bodies)
    )


def load(tensor: Tensor, where: tuple[int, ...] = ()) -> str:
    return (
        f"{expect(tensor.byte_count)} cp.async.bulk.tensor.{tensor.rank}d.shared::cluster.global"
        f".tile.mbarrier::complete_tx::bytes [tile], [%map, {place(tensor, where)}], [bar];"
    )


def store(tensor: Tensor, where: tuple[int, ...] = (), operation: str = "") -> str:
    head = f"cp.reduce.async.bulk.tensor.{tensor.rank}d.global.shared::cta.{operation}.tile"
    plain = f"cp.async.bulk.tensor.{tensor.rank}d.global.shared::cta.tile"
    return (
        f"{head if operation else plain}.bulk_group [%map, {place(tensor, where)}], [tile];"
        f"cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; {expect(0)}"
    )


def job(
    tensor: Tensor,
    body: str,
    tile: Array | None = None,
    where: tuple[int, ...] = (),
    chosen: int = 0,
) -> dict[str, Any]:
    """Return a job with the arrays tensor, tile before, tile after, map."""
    before = np.full(TILE, 0xEE, np.uint8)
    if tile is not None:
        before[: tile.nbytes] = tile.view(np.uint8).ravel()
    base = tensor.data if tensor.data.base is None else tensor.data.base
    memory = np.concatenate([np.frombuffer(base.tobytes(), np.uint8), BEHIND])
    arrays = [memory, before, np.zeros(TILE, np.uint8), np.zeros(128, np.uint8)]
    work = {"ptx": program(tensor, body), "kernel": "k", "grid": 1, "block": 32, "arrays": arrays}
    at = [n & 0xFFFFFFFF for n in where]
    return work | {"scalars": (chosen, *at, *[0] * (len(DIMENSIONS) - len(at)))}


def stored(result: Any, tensor: Tensor) -> Array:
    """Return the tensor after a job that leaves the memory behind it unchanged."""
    assert isinstance(result, list), result
    memory = result[0]
    np.testing.assert_array_equal(memory[-BEHIND.size :], BEHIND)
    return np.asarray(memory[: -BEHIND.size].view(tensor.data.dtype).reshape(tensor.data.shape))


def tiles(jobs: list[dict[str, Any]], folder: Path) -> list[Array]:
    results = run_in_child(jobs, folder)
    assert all(isinstance(r, list) for r in results), results
    return [r[2] for r in results]


def numbers(shape: tuple[int, ...], kind: str, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 200, shape)
    return values.astype(np.dtype(kind))


SHAPES = [
    ((100,), (32,), [(0,), (68,), (-16,), (90,), (200,), (-40,)]),
    ((12, 36), (16, 4), [(0, 0), (16, 4), (-3, -2), (30, 10), (0, 12)]),
    ((5, 6, 20), (8, 3, 2), [(0, 0, 0), (16, 4, 4), (-1, 5, -1)]),
    ((3, 4, 5, 16), (8, 2, 2, 2), [(0, 0, 0, 0), (12, 4, 3, 2), (1, -1, 2, 0)]),
    ((2, 3, 3, 4, 8), (4, 2, 2, 2, 2), [(0, 0, 0, 0, 0), (6, 3, 2, 2, 1), (-2, 0, -1, 0, 0)]),
]


@pytest.mark.parametrize(("shape", "box", "places"), SHAPES)
def test_load_of_a_box_fills_what_lies_outside(
    shape: tuple[int, ...], box: tuple[int, ...], places: list[tuple[int, ...]], tmp_path: Path
) -> None:
    tensor = Tensor(numbers(shape, "u4"), box)
    found = tiles([job(tensor, load(tensor), where=at) for at in places], tmp_path)
    for at, tile in zip(places, found, strict=True):
        np.testing.assert_array_equal(tile[: tensor.byte_count], tensor.tile(at), str(at))
        assert (tile[tensor.byte_count :] == 0xEE).all(), at


@pytest.mark.parametrize("kind", list(TYPES))
def test_load_of_each_type(kind: str, tmp_path: Path) -> None:
    width = 64 // np.dtype(kind).itemsize
    tensor = Tensor(numbers((9, 2 * width), kind), (width, 4), fill=int(kind[0] == "f"))
    at = (width + 3, 7)
    [tile] = tiles([job(tensor, load(tensor, at))], tmp_path)
    actual, expected = (
        t[: tensor.byte_count].view(np.dtype(kind)) for t in (tile, tensor.tile(at))
    )
    np.testing.assert_array_equal(actual, expected)


def test_load_flushes_subnormals(tmp_path: Path) -> None:
    data = np.array([[1e-40, -1e-40, 1.5, -0.0]], np.float32)
    tensor = Tensor(data, (4, 1), kind=FLUSHED)
    [tile] = tiles([job(tensor, load(tensor, (0, 0)))], tmp_path)
    expected = np.array([0.0, -0.0, 1.5, -0.0], np.float32)
    np.testing.assert_array_equal(tile[:16].view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("swizzle", list(CHUNKS))
def test_swizzling_follows_the_tables(swizzle: tuple[int, int], tmp_path: Path) -> None:
    width = 16 << swizzle[0] if swizzle[0] else 128
    tensor = Tensor(numbers((20, width // 2), "u2"), (width // 2, 16), swizzle=swizzle)
    empty = Tensor(np.zeros_like(tensor.data), tensor.box, swizzle=swizzle)
    body = choice([load(tensor), store(tensor)])
    content = tensor.tile((0, 2))
    loads = [job(tensor, body, where=at) for at in ((0, 2), (4, 8))]
    results = run_in_child([*loads, job(empty, body, content, (0, 2), 1)], tmp_path)
    assert all(isinstance(r, list) for r in results), results
    np.testing.assert_array_equal(results[0][2][: tensor.byte_count], content)
    np.testing.assert_array_equal(results[1][2][: tensor.byte_count], tensor.tile((4, 8)))
    expected = np.zeros_like(tensor.data)
    expected[2:18] = tensor.data[2:18]
    np.testing.assert_array_equal(stored(results[2], empty), expected)


def test_flipped_halves(tmp_path: Path) -> None:
    """Atomicity 2 is that of 32 bytes, with the halves of chunks exchanged in odd lines."""
    tensor = Tensor(numbers((16, 64), "u2"), (64, 16), swizzle=(3, 2))
    plain = Tensor(tensor.data, (64, 16), swizzle=(3, 1)).tile((0, 0)).reshape(16, 8, 2, 8)
    expected = np.where(np.arange(16)[:, None, None, None] % 2, plain[:, :, ::-1], plain)
    [tile] = tiles([job(tensor, load(tensor, (0, 0)))], tmp_path)
    np.testing.assert_array_equal(tile[: tensor.byte_count], expected.ravel())


def test_steps_and_strides(tmp_path: Path) -> None:
    """The rows of the tensor are part of longer rows, and the box takes each third of them."""
    data = numbers((30, 48), "f4")[:, :40]
    tensor = Tensor(data, (8, 9), step=(1, 3))
    places = [(0, 0), (36, 20), (-2, -3)]
    found = tiles([job(tensor, load(tensor), where=at) for at in places], tmp_path)
    for at, tile in zip(places, found, strict=True):
        np.testing.assert_array_equal(tile[: tensor.byte_count], tensor.tile(at))


def test_gathered_rows(tmp_path: Path) -> None:
    tensor = Tensor(numbers((20, 32), "u4"), (16, 1))
    rows, column = (3, 19, 0, 25), 8
    body = (
        f"{expect(256)} cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4"
        f".mbarrier::complete_tx::bytes [tile], [%map, {vector((column, *rows))}], [bar];"
    )
    [tile] = tiles([job(tensor, body)], tmp_path)
    expected = np.zeros((4, 16), np.uint32)
    expected[:3] = tensor.data[[3, 19, 0], 8:24]
    np.testing.assert_array_equal(tile[:256].view(np.uint32).reshape(4, 16), expected)


@pytest.mark.parametrize(("shape", "box", "places"), SHAPES)
def test_store_of_a_box_leaves_what_lies_outside(
    shape: tuple[int, ...], box: tuple[int, ...], places: list[tuple[int, ...]], tmp_path: Path
) -> None:
    tensor = Tensor(numbers(shape, "u4"), box)
    tile = numbers(tensor.counts, "u4", 2) + np.uint32(1000)
    jobs = [job(tensor, store(tensor), tile, at) for at in places]
    for at, result in zip(places, run_in_child(jobs, tmp_path), strict=True):
        expected = tensor.data.copy()
        for there, index in tensor.inside(at):
            expected[index] = tile[there]
        np.testing.assert_array_equal(stored(result, tensor), expected, str(at))


def incremented(a: Array, b: Array) -> Array:
    return np.asarray(np.where(a >= b, 0, a + 1), np.uint32)


def decremented(a: Array, b: Array) -> Array:
    return np.asarray(np.where((a == 0) | (a > b), b, a - 1), np.uint32)


OPERATIONS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": incremented,
    "dec": decremented,
}
REDUCTIONS = [
    *(("u4", o) for o in OPERATIONS),
    *((k, o) for k in ("i4", "u8") for o in ("add", "min", "max", "and", "or", "xor")),
    *(("i8", o) for o in ("min", "max", "xor")),
    *(("f2", o) for o in ("add", "min", "max")),
    ("f4", "add"),
]


def signed_numbers(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    values = np.random.default_rng(seed).integers(-3, 4, shape)
    return (
        np.abs(values).astype(np.dtype(kind)) if kind[0] == "u" else values.astype(np.dtype(kind))
    )


@pytest.mark.parametrize(("kind", "operation"), REDUCTIONS)
def test_reduction_of_a_box(kind: str, operation: str, tmp_path: Path) -> None:
    """The kernel has all operations of the type."""
    tensor = Tensor(signed_numbers((6, 16), kind, 1), (8, 4))
    tile = signed_numbers((4, 8), kind, 2)
    operations = [o for k, o in REDUCTIONS if k == kind]
    body = choice(store(tensor, (12, 3), o) for o in operations)
    work = job(tensor, body, tile, chosen=operations.index(operation))
    [result] = run_in_child([work], tmp_path)
    expected = tensor.data.copy()
    expected[3:, 12:] = OPERATIONS[operation](expected[3:, 12:], tile[:3, :4])
    np.testing.assert_array_equal(stored(result, tensor), expected)


def test_copy_of_bytes_in_both_directions(tmp_path: Path) -> None:
    tensor = Tensor(numbers((256,), "u4"), (4,))
    up = (
        f"mov.u32 %r9, 96; {expect(96)} cp.async.bulk.shared::cta.global"
        ".mbarrier::complete_tx::bytes [tile+64], [%tensor+16], %r9, [bar];"
    )
    down = f"cp.async.bulk.global.shared::cta.bulk_group [%tensor+32], [tile+16], 48; {expect(0)}"
    tile = numbers((64,), "u4", 3)
    results = run_in_child([job(tensor, up, tile), job(tensor, down, tile)], tmp_path)
    assert all(isinstance(r, list) for r in results), results
    expected, changed = tile.copy(), tensor.data.copy()
    expected[16:40] = tensor.data[4:28]
    changed[8:20] = tile[4:16]
    np.testing.assert_array_equal(results[0][2][:256].view(np.uint32), expected)
    np.testing.assert_array_equal(stored(results[1], tensor), changed)


BYTE_REDUCTIONS = [
    ("u4", "add.u32", "add"),
    ("i4", "min.s32", "min"),
    ("u8", "add.u64", "add"),
    ("i8", "max.s64", "max"),
    ("u4", "xor.b32", "xor"),
    ("u8", "or.b64", "or"),
    ("u4", "inc.u32", "inc"),
    ("u4", "dec.u32", "dec"),
    ("f4", "add.f32", "add"),
    ("f8", "add.f64", "add"),
    ("f2", "add.noftz.f16", "add"),
    ("f2", "min.f16", "min"),
    ("f2", "max.f16", "max"),
]


@pytest.mark.parametrize(("kind", "modifiers", "operation"), BYTE_REDUCTIONS)
def test_reduction_of_bytes(kind: str, modifiers: str, operation: str, tmp_path: Path) -> None:
    """The kernel has all reductions. The map is not used."""
    tensor, tile = Tensor(signed_numbers((64,), kind, 1), (16,)), signed_numbers((16,), kind, 2)
    body = choice(
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{m} [%tensor], [tile], "
        f"{16 * np.dtype(k).itemsize}; {expect(0)}"
        for k, m, _ in BYTE_REDUCTIONS
    )
    work = job(tensor, body, tile, chosen=BYTE_REDUCTIONS.index((kind, modifiers, operation)))
    [result] = run_in_child([work | {"ptx": program(BOX, body)}], tmp_path)
    expected = tensor.data.copy()
    expected[:16] = OPERATIONS[operation](expected[:16], tile)
    np.testing.assert_array_equal(stored(result, tensor), expected)


BOX = Tensor(np.zeros((8, 32), np.uint32), (8, 4))
BAD_BODIES = [
    (load(BOX, (0, 0)).replace("[tile]", "[tile+64]"), 716),
    (load(BOX, (0, 0)).replace("2d", "1d").replace("{0, 0}", "{0}"), TRAP),
    (load(BOX, (0, 0)).replace("[tile]", "[tile+1048576]"), FAULT),
    (load(BOX, (0, 0)).replace("%map,", "%tensor,"), TRAP),
    (f"mov.u64 %map, 4096; {load(BOX, (0, 0))}", FAULT),
    (f"add.u64 %map, %map, 8; {load(BOX, (0, 0))}", 716),
    (f"mov.u64 %tensor, 4096; {BOX.replace()} {expect(0)}", 0),
]
BAD = [
    *((BOX, number, code) for number, (_, code) in enumerate(BAD_BODIES)),
    (Tensor(BOX.data, (8, 0)), load(BOX, (0, 0)), TRAP),
    (Tensor(BOX.data, (6, 4)), load(BOX, (0, 0)), TRAP),
    (Tensor(BOX.data, (8, 4), step=(1, 9)), load(BOX, (0, 0)), TRAP),
    (Tensor(BOX.data, (8, 4), fill=1), load(BOX, (0, 0)), TRAP),
    (Tensor(BOX.data, (8, 4), kind=11), load(BOX, (0, 0)), TRAP),
    (Tensor(BOX.data, (8, 4), swizzle=(3, 0)), load(BOX, (0, 0)), TRAP),
    (Tensor(np.zeros((8, 32), np.float32), (8, 4)), store(BOX, (0, 0), "xor"), TRAP),
]


@pytest.mark.parametrize(("tensor", "body", "code"), BAD)
def test_bad_map_or_address_ends_the_kernel(
    tensor: Tensor, body: str | int, code: int, tmp_path: Path
) -> None:
    """A body that is a number is one of BAD_BODIES, which are in one kernel."""
    if isinstance(body, int):
        work = job(tensor, choice(b for b, _ in BAD_BODIES), chosen=body)
    else:
        work = job(tensor, body)
    [result] = run_in_child([work], tmp_path)
    if code:
        assert result[:2] == ("error", code), result
    else:
        assert isinstance(result, list), result


def test_map_with_a_wild_address_ends_the_kernel(tmp_path: Path) -> None:
    wild = "mov.u64 %tensor, 4096;\n" + BOX.replace()
    ptx = program(BOX, load(BOX, (0, 0))).replace(BOX.replace(), wild)
    [result] = run_in_child([job(BOX, "") | {"ptx": ptx}], tmp_path)
    assert result[:2] == ("error", FAULT), result
