// mma ldmatrix stmatrix movmatrix: one instruction of a whole warp. The lanes' fragments are
// gathered in arrays, device/runtime/matrix.h computes, and the results are written back to the
// lanes.
#include <cstdio>

#include "softgpu/emit/access.h"
#include "softgpu/emit/cross_lane.h"
#include "softgpu/emit/fragments.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;

namespace {

constexpr int kMaxFragmentRegisters = 4;  // of one lane
constexpr int kMatrixRowBytes = 16;       // of ldmatrix and stmatrix

// mma.sync.aligned.shape.row.col{.kind::f8f6f4}{.satfinite}.dtype.atype.btype.ctype
struct Mma {
  int m = 0, n = 0, k = 0;
  std::string d, a, b, c;  // element types

  Mma(const FunctionScope& scope, const Instruction& ins) {
    bool shaped = false;
    for (size_t i = 0; i < ins.mods.size() && !shaped; ++i)
      if (std::sscanf(ins.mods[i].c_str(), "m%dn%dk%d", &m, &n, &k) == 3) {
        shaped = true;
        ins.take_at(i);
      }
    size_t words = ins.mods.size();
    if (!shaped || n != 8 || (m != 16 && m != 8) || ins.operands.size() != 4 || words < 5 ||
        !ins.take("row") || !ins.take("col"))
      scope.refuse();
    d = ins.take_at(words - 4);
    a = ins.take_at(words - 3);
    b = ins.take_at(words - 2);
    c = ins.take_at(words - 1);
  }
  bool is_double() const { return d == "f64" && m == 8 && k == 4; }
};

void emit_double_mma(const FunctionScope& scope, const Instruction& ins, Code& out) {
  check_registers(scope, ins.operands[0], 2, kF64);
  check_registers(scope, ins.operands[1], 1, kF64);
  check_registers(scope, ins.operands[2], 1, kF64);
  check_registers(scope, ins.operands[3], 2, kF64);
  auto block = out.block("");
  out.add("u64 A[32], B[32], C[32][2], D[32][2]");
  out.add("(void)g");
  {
    auto lane = for_all_lanes(out);
    out.add("A[l] = {}", scope.read_bits(register_of(ins.operands[1], 0), kB64));
    out.add("B[l] = {}", scope.read_bits(register_of(ins.operands[2], 0), kB64));
    gather(scope, "C", ins.operands[3], kB64, out);
  }
  out.add("mma_m8n8k4_f64(A, B, C, D)");
  scatter(scope, "D", ins.operands[0], kB64, out);
}

}  // namespace

void emit_mma(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (ins.has("block_scale")) return emit_scaled_mma(scope, ins, out);
  Mma mma(scope, ins);
  if (mma.is_double()) return emit_double_mma(scope, ins, out);
  const Element *a = element_of(mma.a), *b = element_of(mma.b);
  if (!a || !b) scope.refuse();
  bool integer = a->is_integer, with_kind = ins.take("kind::f8f6f4");
  if (mma.d != mma.c || (mma.d != "f32" && mma.d != "f16" && mma.d != "s32") ||
      integer != (mma.d == "s32") || integer != b->is_integer)
    scope.refuse();
  if (with_kind ? !a->in_byte || !b->in_byte || mma.k != 32 : a->needs_kind || b->needs_kind)
    scope.reject("its kind does not fit its types");
  int lanes = 32 * a->per_register, m = mma.m, k = mma.k;
  if (k > 32 || m * k % lanes || 8 * k % lanes || (m == 8 && !integer) ||
      m * k / lanes > kMaxFragmentRegisters)
    scope.refuse();
  int results = m / 4 / (mma.d == "f16" ? 2 : 1);
  check_registers(scope, ins.operands[0], results, mma.d == "f32" ? kF32 : kB32);
  check_registers(scope, ins.operands[1], m * k / lanes, kB32);
  check_registers(scope, ins.operands[2], 8 * k / lanes, kB32);
  check_registers(scope, ins.operands[3], results, mma.d == "f32" ? kF32 : kB32);
  auto block = out.block("");
  out.add("u32 A[32][4], B[32][4], C[32][4], D[32][4]");
  out.add("(void)g");
  {
    auto lane = for_all_lanes(out);
    gather(scope, "A", ins.operands[1], kB32, out);
    gather(scope, "B", ins.operands[2], kB32, out);
    gather(scope, "C", ins.operands[3], kB32, out);
  }
  out.add("Mma shape = {{}, {}, {}, {}, {}, {}}", m, k, a->kind, b->kind, mma.d == "f16" ? 1 : 0,
          integer && ins.take("satfinite") ? 1 : 0);
  out.add("{}(&shape, A, B, C, D)", integer ? "mma_int" : "mma_float");
  scatter(scope, "D", ins.operands[0], kB32, out);
}

// {ld,st}matrix.sync.aligned.m8n8.xN{.trans}.shared.b16
void emit_move_matrices(FunctionScope& scope, const Instruction& ins, Code& out) {
  bool store = ins.op == "stmatrix";
  int n = ins.take("x4") ? 4 : ins.take("x2") ? 2 : 1;
  if (n == 1 && !ins.take("x1")) scope.refuse();
  const Operand &value = ins.operands.at(store ? 1 : 0), &where = ins.operands.at(store ? 0 : 1);
  if (!ins.take("m8n8") || !ins.take("b16") || registers_in(value) != n) scope.refuse();
  int transposed = ins.take("trans") ? 1 : 0;
  auto block = out.block("");
  out.add("Access rows[32]");
  out.add("u32 F[32][4]");
  out.add("(void)g");
  {
    auto lane = out.block("for (u32 l = 0; l < {}; ++l)", 8 * n);
    out.add("rows[l] = {}",
            Access::single(scope, ins, {where, state_space(ins), kMatrixRowBytes, ""}));
  }
  if (store) {
    {
      auto lane = for_all_lanes(out);
      gather(scope, "F", value, kB32, out);
    }
    out.add("store_matrices(rows, {}, {}, F)", n, transposed);
    return;
  }
  out.add("load_matrices(rows, {}, {}, F)", n, transposed);
  scatter(scope, "F", value, kB32, out);
}

// movmatrix.sync.aligned.m8n8.trans.b16: the two halves of lane l are row l/4, columns 2(l%4) and
// 2(l%4)+1; the transposed ones are read from two lanes.
void emit_transpose_matrix(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (!ins.take("m8n8") || !ins.take("trans") || !ins.take("b16")) scope.refuse();
  auto block = out.block("");
  out.add("u16 m[8][8]");
  out.add("(void)g");
  {
    auto lane = for_all_lanes(out);
    out.add("u32 v = {}", scope.read(ins.operands.at(1), kB32));
    out.add("m[l >> 2][(l & 3) * 2] = (u16)v");
    out.add("m[l >> 2][(l & 3) * 2 + 1] = (u16)(v >> 16)");
  }
  auto lane = for_all_lanes(out);
  scope.assign(out, ins.operands[0],
               {"(u32)m[(l & 3) * 2][l >> 2] | (u32)m[(l & 3) * 2 + 1][l >> 2] << 16", kB32});
}

}  // namespace softgpu::emit
