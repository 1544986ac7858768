"""Every instruction of the PTX manual (ISA 9.0, chapter 9.7) with samples and its support.

`python -m tests.softgpu.ptx_instructions` writes docs/ptx.md.
"""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ptx.md"

# Samples by instruction. Registers: %h b16, %r b32, %l b64, %f f32, %d f64, %p predicates.
# Addresses, 16-byte aligned: [%lg] global, [%ls] shared (32 bits).
SUPPORTED: dict[str, tuple[str, ...]] = {
    "add, sub": (
        "add.s16 %h1, %h2, %h3;",
        "add.u32 %r1, %r2, %r3;",
        "sub.s64 %l1, %l2, %l3;",
        "add.sat.s32 %r1, %r2, %r3;",
        "add.rz.ftz.f32 %f1, %f2, %f3;",
        "sub.rm.f64 %d1, %d2, %d3;",
        "add.rn.f32x2 %l1, %l2, %l3;",
        "add.s16x2 %r1, %r2, %r3;",
    ),
    "add.cc, addc, sub.cc, subc": (
        "add.cc.u32 %r1, %r2, %r3;",
        "addc.cc.u32 %r1, %r2, %r3;",
        "subc.u64 %l1, %l2, %l3;",
    ),
    "mul, mad": (
        "mul.lo.s32 %r1, %r2, %r3;",
        "mul.hi.u64 %l1, %l2, %l3;",
        "mul.wide.s16 %r1, %h2, %h3;",
        "mad.lo.s32 %r1, %r2, %r3, %r4;",
        "mad.wide.u32 %l1, %r2, %r3, %l4;",
        "mad.hi.s32 %r1, %r2, %r3, %r4;",
        "mul.rp.sat.f32 %f1, %f2, %f3;",
    ),
    "mul24, mad24": ("mul24.lo.u32 %r1, %r2, %r3;", "mad24.lo.s32 %r1, %r2, %r3, %r4;"),
    "madc": ("madc.lo.cc.u32 %r1, %r2, %r3, %r4;", "madc.hi.u32 %r1, %r2, %r3, %r4;"),
    "sad": ("sad.u32 %r1, %r2, %r3, %r4;", "sad.s16 %h1, %h2, %h3, %h4;"),
    "div, rem": (
        "div.s32 %r1, %r2, %r3;",
        "rem.u64 %l1, %l2, %l3;",
        "div.full.f32 %f1, %f2, %f3;",
        "div.approx.ftz.f32 %f1, %f2, %f3;",
        "div.rz.f32 %f1, %f2, %f3;",
        "div.rn.f64 %d1, %d2, %d3;",
    ),
    "abs, neg": (
        "abs.s32 %r1, %r2;",
        "neg.s64 %l1, %l2;",
        "abs.ftz.f32 %f1, %f2;",
        "neg.f64 %d1, %d2;",
    ),
    "min, max": (
        "min.u32 %r1, %r2, %r3;",
        "max.s64 %l1, %l2, %l3;",
        "min.NaN.f32 %f1, %f2, %f3;",
        "min.xorsign.abs.f32 %f1, %f2, %f3;",
        "max.relu.s16x2 %r1, %r2, %r3;",
        "max.f64 %d1, %d2, %d3;",
        "max.bf16 %h1, %h2, %h3;",
    ),
    "popc, clz, bfind, brev": (
        "popc.b64 %r1, %l2;",
        "clz.b32 %r1, %r2;",
        "bfind.u32 %r1, %r2;",
        "bfind.shiftamt.s64 %r1, %l2;",
        "brev.b64 %l1, %l2;",
    ),
    "bfe, bfi, bmsk, szext, fns": (
        "bfe.s64 %l1, %l2, %r3, %r4;",
        "bfi.b32 %r1, %r2, %r3, %r4, %r5;",
        "bmsk.clamp.b32 %r1, %r2, %r3;",
        "szext.wrap.s32 %r1, %r2, %r3;",
        "fns.b32 %r1, %r2, %r3, %r4;",
    ),
    "dp4a, dp2a": ("dp4a.u32.s32 %r1, %r2, %r3, %r4;", "dp2a.lo.s32.u32 %r1, %r2, %r3, %r4;"),
    "vabsdiff2, vabsdiff4": (
        "vabsdiff4.u32.u32.u32 %r1, %r2, %r3, %r4;",
        "vabsdiff2.s32.s32.s32.add %r1, %r2, %r3, %r4;",
    ),
    "testp, copysign": ("testp.subnormal.f32 %p1, %f2;", "copysign.f64 %d1, %d2, %d3;"),
    "fma": (
        "fma.rn.sat.f32 %f1, %f2, %f3, %f4;",
        "fma.rp.f64 %d1, %d2, %d3, %d4;",
        "fma.rn.relu.bf16 %h1, %h2, %h3, %h4;",
        "fma.rn.f16x2 %r1, %r2, %r3, %r4;",
    ),
    "mixed precision": (
        "add.rn.f32.bf16 %f1, %h2, %f3;",
        "sub.rz.sat.f32.f16 %f1, %h2, %f3;",
        "fma.rn.f32.bf16 %f1, %h2, %h3, %f4;",
    ),
    "rcp, sqrt, rsqrt": (
        "rcp.rn.f32 %f1, %f2;",
        "rcp.approx.ftz.f64 %d1, %d2;",
        "sqrt.rn.f64 %d1, %d2;",
        "sqrt.approx.f32 %f1, %f2;",
        "rsqrt.approx.f32 %f1, %f2;",
        "rsqrt.approx.f64 %d1, %d2;",
    ),
    "sin, cos, lg2, ex2, tanh": (
        "sin.approx.f32 %f1, %f2;",
        "cos.approx.ftz.f32 %f1, %f2;",
        "lg2.approx.f32 %f1, %f2;",
        "ex2.approx.ftz.f32 %f1, %f2;",
        "ex2.approx.f16 %h1, %h2;",
        "tanh.approx.f32 %f1, %f2;",
    ),
    "half arithmetic": (
        "add.f16 %h1, %h2, %h3;",
        "sub.ftz.f16 %h1, %h2, %h3;",
        "mul.f16x2 %r1, %r2, %r3;",
        "fma.rn.bf16x2 %r1, %r2, %r3, %r4;",
        "neg.bf16 %h1, %h2;",
        "abs.f16 %h1, %h2;",
        "min.NaN.f16x2 %r1, %r2, %r3;",
    ),
    "set, setp": (
        "set.gt.u32.s32 %r1, %r2, %r3;",
        "set.lt.f32.f32 %f1, %f2, %f3;",
        "setp.neu.f64 %p1, %d2, %d3;",
        "setp.lt.and.s32 %p1|%p2, %r2, %r3, %p3;",
        "setp.eq.f16 %p1, %h2, %h3;",
    ),
    "selp, slct": (
        "selp.f64 %d1, %d2, %d3, %p1;",
        "slct.u32.s32 %r1, %r2, %r3, %r4;",
        "slct.f32.f32 %f1, %f2, %f3, %f4;",
    ),
    "and, or, xor, not, cnot, lop3": (
        "and.pred %p1, %p2, %p3;",
        "or.b16 %h1, %h2, %h3;",
        "xor.b64 %l1, %l2, %l3;",
        "not.pred %p1, %p2;",
        "cnot.b32 %r1, %r2;",
        "lop3.b32 %r1, %r2, %r3, %r4, 0x96;",
    ),
    "shl, shr, shf": (
        "shl.b64 %l1, %l2, %r3;",
        "shr.s16 %h1, %h2, %r3;",
        "shf.l.clamp.b32 %r1, %r2, %r3, %r4;",
        "shf.r.wrap.b32 %r1, %r2, %r3, %r4;",
    ),
    "mov": (
        "mov.u32 %r1, %laneid;",
        "mov.b64 {%r1, %r2}, %l3;",
        "mov.b32 %r1, {%h1, %h2};",
        "mov.pred %p1, %p2;",
    ),
    "shfl.sync": ("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;",),
    "prmt": (
        "prmt.b32 %r1, %r2, %r3, 0x3210;",
        "prmt.b32.f4e %r1, %r2, %r3, %r4;",
        "prmt.b32.rc16 %r1, %r2, %r3, %r4;",
    ),
    "ld, st, ldu": (
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%lg];",
        "ld.volatile.global.s16 %h1, [%lg];",
        "ld.shared.b64 %l1, [%ls];",
        "st.shared.v2.f32 [%ls], {%f1, %f2};",
        "ld.relaxed.gpu.global.u32 %r1, [%lg];",
        "st.release.sys.global.u64 [%lg], %l1;",
        "ld.global.nc.L1::no_allocate.f32 %f1, [%lg];",
        "ldu.global.u32 %r1, [%lg];",
    ),
    "prefetch, applypriority, discard": (
        "prefetch.global.L2 [%lg];",
        "discard.global.L2 [%lg], 128;",
    ),
    "isspacep, cvta": (
        "isspacep.shared %p1, %l1;",
        "cvta.to.global.u64 %l1, %l2;",
        "cvta.shared.u64 %l1, %l2;",
    ),
    "cvt": (
        "cvt.rn.f32.s64 %f1, %l1;",
        "cvt.rzi.u8.f32 %r1, %f2;",
        "cvt.sat.s16.s32 %h1, %r2;",
        "cvt.rn.ftz.f16.f32 %h1, %f2;",
        "cvt.rz.bf16.f32 %h1, %f2;",
        "cvt.f64.f32 %d1, %f2;",
        "cvt.rna.tf32.f32 %r1, %f2;",
    ),
    "cvt.pack, pairs, fp8, ue8m0": (
        "cvt.rn.f16x2.f32 %r1, %f2, %f3;",
        "cvt.rn.satfinite.e4m3x2.f32 %h1, %f2, %f3;",
        "cvt.rn.f16x2.e5m2x2 %r1, %h2;",
        "cvt.rp.satfinite.ue8m0x2.f32 %h1, %f2, %f3;",
    ),
    "cp.async": (
        "cp.async.ca.shared.global [%ls], [%lg], 16;",
        "cp.async.cg.shared.global [%ls], [%lg], 16, %r1;",
        "cp.async.commit_group;",
        "cp.async.wait_group 0;",
        "cp.async.wait_all;",
    ),
    "cp.async.mbarrier.arrive": ("cp.async.mbarrier.arrive.noinc.shared.b64 [%ls];",),
    "cp.async.bulk": (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%ls], [%lg], %r1, "
        "[%ls];",
        "cp.async.bulk.global.shared::cta.bulk_group [%lg], [%ls], 64;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%lg], [%ls], %r1;",
        "cp.async.bulk.prefetch.L2.global [%lg], 64;",
        "cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group.read 0;",
    ),
    "cp.async.bulk.tensor (TMA)": (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%ls], "
        "[%l1, {%r1, %r2}], [%ls];",
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
        "[%ls], [%l1, {%r1, %r2, %r3, %r4, %r5}], [%ls];",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%l1, {%r1}], [%ls];",
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
        "[%l1, {%r1, %r2, %r3}], [%ls];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%l1, {%r1, %r2}];",
    ),
    "tensormap": (
        "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%ls], %l1;",
        "tensormap.replace.tile.box_dim.global.b1024.b32 [%lg], 1, %r1;",
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%ls], 7;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
        "[%lg], [%ls], 128;",
        "fence.proxy.tensormap::generic.acquire.gpu [%lg], 128;",
    ),
    "tex": (
        "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%l1, {%r1}];",
        "tex.2d.v4.u32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1, %f2}];",
    ),
    "tex of three dimensions, layers, cubes and levels, tld4": (
        "tex.3d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f1, %f2, %f3, %f4}];",
        "tex.a2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%r1, %f1, %f2, %f3}];",
        "tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f1, %f2, %f3, %f4}];",
        "tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f1, %f2}], %f5;",
        "tex.grad.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f1}], {%f5}, {%f6};",
        "tex.grad.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f1, %f2, %f3, %f4}], "
        "{%f1, %f2, %f3, %f4}, {%f5, %f6, %f7, %f8};",
        "tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f1, %f2}];",
    ),
    "tex and tld4 with offsets, halves and residency": (
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f1, %f2}], {%r1, %r2};",
        "tex.2d.v4.f16.f32 {%h1, %h2, %h3, %h4}, [%l1, {%f1, %f2}];",
        "tex.2d.v2.f16x2.f32 {%r1, %r2}, [%l1, {%f1, %f2}];",
        "tex.level.1d.v4.u32.f32 {%r1, %r2, %r3, %r4}|%p1, [%l1, {%f1}], %f2, {-3};",
        "tld4.a.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p1, [%l1, {%f1, %f2}], {%r1, %r2};",
    ),
    "txq, suq": (
        "txq.width.b32 %r1, [%l1];",
        "txq.level.height.b32 %r1, [%l1], %r2;",
        "txq.filter_mode.b32 %r1, [%l1];",
        "suq.width.b32 %r1, [%l1];",
        "suq.channel_order.b32 %r1, [%l1];",
    ),
    "sust.p, sured.p (formatted surfaces)": (
        "sust.p.1d.v4.b32.trap [%l1, {%r1}], {%r2, %r3, %r4, %r5};",
        "sust.p.2d.b32.clamp [%l1, {%r1, %r2}], %r3;",
        "sured.p.add.1d.b32.zero [%l1, {%r1}], %r2;",
        "sured.p.min.2d.b64.trap [%l1, {%r1, %r2}], %l2;",
    ),
    "suld.b, sust.b, sured.b (surfaces)": (
        "suld.b.2d.b32.trap %r1, [%l1, {%r1, %r2}];",
        "suld.b.1d.v2.b64.zero {%l2, %l3}, [%l1, {%r1}];",
        "suld.b.a1d.b8.clamp %h1, [%l1, {%r1, %r2}];",
        "sust.b.1d.b32.trap [%l1, {%r1}], %r2;",
        "sust.b.3d.v4.b32.zero [%l1, {%r1, %r2, %r3, %r4}], {%r5, %r6, %r7, %r8};",
        "sured.b.add.1d.u32.trap [%l1, {%r1}], %r2;",
        "sured.b.min.2d.s64.clamp [%l1, {%r1, %r2}], %l2;",
    ),
    "bra, brx.idx, call, ret, exit": ("bra $NEXT; $NEXT:", "@%p1 ret;", "@%p1 exit;"),
    "bar, barrier": (
        "bar.sync 0;",
        "barrier.sync 1, 64;",
        "bar.arrive 1, 64;",
        "bar.red.popc.u32 %r1, 0, %p1;",
        "bar.red.and.pred %p1, 0, %p2;",
        "bar.warp.sync -1;",
    ),
    "membar, fence": ("membar.gl;", "fence.acq_rel.gpu;", "fence.sc.sys;"),
    "atom, red": (
        "atom.global.add.u32 %r1, [%lg], %r2;",
        "atom.shared.cas.b32 %r1, [%ls], %r2, %r3;",
        "atom.global.exch.b64 %l1, [%lg], %l2;",
        "atom.global.add.noftz.f16x2 %r1, [%lg], %r2;",
        "atom.global.min.s64 %l1, [%lg], %l2;",
        "atom.global.inc.u32 %r1, [%lg], %r2;",
        "red.global.add.f64 [%lg], %d1;",
        "red.relaxed.gpu.global.xor.b32 [%lg], %r1;",
        "atom.global.cas.b16 %h1, [%lg], %h2, %h3;",
    ),
    "vote, match, activemask, redux": (
        "vote.sync.ballot.b32 %r1, %p1, -1;",
        "match.all.sync.b64 %r1|%p1, %l1, -1;",
        "activemask.b32 %r1;",
        "redux.sync.min.s32 %r1, %r2, -1;",
    ),
    "mbarrier": (
        "mbarrier.init.shared.b64 [%ls], 4;",
        "mbarrier.arrive.shared.b64 %l1, [%ls];",
        "mbarrier.arrive_drop.shared.b64 %l1, [%ls];",
        "mbarrier.test_wait.shared.b64 %p1, [%ls], %l1;",
        "mbarrier.try_wait.parity.shared.b64 %p1, [%ls], 0;",
        "mbarrier.pending_count.b64 %r1, %l1;",
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%ls], 8;",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%ls], 8;",
        "mbarrier.inval.shared.b64 [%ls];",
    ),
    "mma.sync": (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, "
        "{%r5,%r6}, {%f1,%f2,%f3,%f4};",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, "
        "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};",
        "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%r1,%r2,%r3,%r4}, "
        "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r1,%r2,%r3,%r4};",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d4}, {%d1,%d2};",
    ),
    "mma.sync with small floats and block scaling": (
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32 {%f1,%f2,%f3,%f4}, "
        "{%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};",
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2"
        ".f32.ue8m0 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4}, "
        "%r7, {0, 1}, %r8, {3, 2};",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
        "{%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4}, "
        "%r7, {0, 1}, %r8, {2, 0};",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1"
        ".f32.ue4m3 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4}, "
        "%r7, {0, 1}, %r8, {0, 3};",
    ),
    "ldmatrix, stmatrix, movmatrix": (
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%ls];",
        "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%ls], {%r1,%r2};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;",
    ),
    "wmma": (
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, "
        "[%ls];",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, "
        "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, "
        "{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8};",
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%lg], "
        "{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, %r1;",
    ),
    "elect.sync": ("elect.sync %r1|%p1, -1;",),
    "nanosleep, pmevent, trap, brkpt": ("nanosleep.u32 100;", "pmevent 1;", "@%p1 trap;", "brkpt;"),
    "createpolicy": ("createpolicy.fractional.L2::evict_last.b64 %l1, 1.0;",),
    "griddepcontrol, setmaxnreg": ("griddepcontrol.wait;", "griddepcontrol.launch_dependents;"),
}

REFUSED: dict[str, tuple[str, ...]] = {
    "wgmma": ("wgmma.fence.sync.aligned;",),
    "tcgen05": ("tcgen05.wait::ld.sync.aligned;",),
    "cp.async.bulk of clusters, im2col": (
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%ls], [%ls], 16, "
        "[%ls];",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%ls], "
        "[%l1, {%r1, %r2, %r3}], [%ls], {%h1};",
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%ls], [%l1, {%r1}], [%ls], %h1;",
    ),
    "mapa, getctarank, barrier.cluster (clusters)": (
        "mapa.u64 %l1, %l2, %r1;",
        "getctarank.u64 %r1, %l1;",
        "barrier.cluster.arrive;",
    ),
    "tex with samplers and comparisons of depths": (
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, %l2, {%f1, %f2}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f1, %f2}], %f5;",
    ),
    "mma.sp": (
        "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, "
        "{%r1,%r2}, "
        "{%r3,%r4}, {%f1,%f2,%f3,%f4}, %r5, 0;",
    ),
    "multimem": ("multimem.red.global.add.u32 [%lg], %r1;",),
    "other video instructions (vadd, vset, …)": (
        "vadd.s32.s32.s32 %r1, %r2, %r3;",
        "vadd2.s32.s32.s32 %r1, %r2, %r3, %r4;",
    ),
    "alloca, stacksave, stackrestore": ("stacksave.u64 %l1;",),
    "clusterlaunchcontrol": ("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;",),
}


REGISTERS = """
.reg .b16 %h<9>; .reg .b32 %r<9>, %ls; .reg .b64 %l<9>, %lg; .reg .f32 %f<9>; .reg .f64 %d<9>;
.reg .pred %p<5>; .reg .b128 %q<2>;
.shared .align 128 .b8 s[1024];
ld.param.u64 %lg, [p]; mov.u32 %ls, s;
""".strip()


def kernel(sample: str) -> str:
    return f""".version 8.8
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 p) {{
{REGISTERS}
{sample}
ret; }}
"""


def page() -> str:
    rows = [
        f"| {name} | supported | {'<br>'.join(f'`{s}`' for s in samples)} |"
        for name, samples in SUPPORTED.items()
    ]
    rows += [
        f"| {name} | not supported | {'<br>'.join(f'`{s}`' for s in samples)} |"
        for name, samples in REFUSED.items()
    ]
    text = [
        "# PTX on the software GPU",
        "",
        "This page lists every instruction of the PTX manual (ISA 9.0). It is generated by",
        "`python -m tests.softgpu.ptx_instructions`. A test translates each sample, validates it",
        "with NVIDIA's ptxas, and fails if this page is stale. A kernel with an unsupported",
        "instruction fails to load with an error that names the instruction and its line.",
        "",
        "The results of the instructions are tested in `tests/softgpu/test_instructions.py`,",
        "`test_matrix.py`, `test_random_programs.py` and by the programs in `test_programs.py`.",
        "",
        "| instruction | state | samples |",
        "|---|---|---|",
    ]
    return "\n".join([*text, *rows]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
