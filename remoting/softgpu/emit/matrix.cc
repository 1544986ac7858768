// mma ldmatrix stmatrix movmatrix: one instruction of a whole warp. The lanes' fragments are
// gathered, device/matrix.h computes, the lanes get theirs.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

static const Type kB32{'b', 32};
static const char* kEach = "for (u32 l = 0; l < 32; ++l) {\n";

static size_t registers_in(const Operand& o) {
  return o.kind == OperandKind::vector ? o.elements.size() : 1;
}
static const Operand& register_of(const Operand& o, size_t i) {
  return o.kind == OperandKind::vector ? o.elements.at(i) : o;
}

static std::string gather(const std::string& array, const Operand& o, auto read) {
  std::string s;
  for (size_t i = 0; i < registers_in(o); ++i)
    s += array + "[l][" + std::to_string(i) + "] = " + read(register_of(o, i)) + "; ";
  return s;
}

static bool shape_of(const Instruction& ins, int& m, int& n, int& k) {
  for (auto& w : ins.mods)
    if (std::sscanf(w.c_str(), "m%dn%dk%d", &m, &n, &k) == 3) return true;
  return false;
}

static const char* kind_of(const std::string& w) {
  static const std::map<std::string, const char*> kinds = {
      {"f16", "E_F16"},   {"bf16", "E_BF16"}, {"tf32", "E_TF32"}, {"e4m3", "E_E4M3"},
      {"e5m2", "E_E5M2"}, {"s8", "E_S8"},     {"u8", "E_U8"}};
  auto it = kinds.find(w);
  return it == kinds.end() ? nullptr : it->second;
}

// mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype
void FunctionEmitter::multiply_matrices(const Instruction& ins, std::string& out) const {
  int m = 0, n = 0, k = 0;
  size_t words = ins.mods.size();
  if (!shape_of(ins, m, n, k) || n != 8 || (m != 16 && m != 8) || ins.operands.size() != 4 ||
      words < 5 || !ins.has("row") || !ins.has("col"))
    refuse(ins);
  const std::string &d = ins.mods[words - 4], &a = ins.mods[words - 3], &b = ins.mods[words - 2],
                    &c = ins.mods[words - 1];
  if (d == "f64" && m == 8 && k == 4) return multiply_doubles(ins, out);
  const char *ka = kind_of(a), *kb = kind_of(b);
  bool integer = a == "s8" || a == "u8";
  if (!ka || !kb || d != c || (d != "f32" && d != "f16" && d != "s32") || integer != (d == "s32"))
    refuse(ins);
  int per = a == "tf32" ? 1 : a == "f16" || a == "bf16" ? 2 : 4;
  size_t ra = (size_t)(m * k / 32 / per), rb = (size_t)(8 * k / 32 / per),
         rc = (size_t)(m / 4) / (d == "f16" ? 2 : 1);
  if (k > 32 || m * k % (32 * per) || 8 * k % (32 * per) || (m == 8 && !integer)) refuse(ins);
  if (registers_in(ins.operands[1]) != ra || registers_in(ins.operands[2]) != rb ||
      registers_in(ins.operands[3]) != rc || registers_in(ins.operands[0]) != rc)
    refuse(ins, "a fragment has a wrong number of registers");
  auto in = [&](const Operand& o) {
    return read(o, kB32);
  };
  out += "{ u32 A[32][4], B[32][4], C[32][4], D[32][4]; (void)g;\n" + std::string(kEach) +
         gather("A", ins.operands[1], in) + gather("B", ins.operands[2], in) +
         gather("C", ins.operands[3], in) + "}\n";
  out += "Mma shape = {" + std::to_string(m) + ", " + std::to_string(k) + ", " + ka + ", " + kb +
         ", " + (d == "f16" ? "1" : "0") + ", " + (ins.has("satfinite") ? "1" : "0") + "};\n";
  out += std::string(integer ? "mma_int" : "mma_float") +
         "(&shape, (const u32 (*)[4])A, (const u32 (*)[4])B, (const u32 (*)[4])C, D);\n" + kEach;
  for (size_t i = 0; i < rc; ++i)
    out += write(register_of(ins.operands[0], i), kB32, "D[l][" + std::to_string(i) + "]");
  out += "} }\n";
}

void FunctionEmitter::multiply_doubles(const Instruction& ins, std::string& out) const {
  const Type b64{'b', 64};
  auto in = [&](const Operand& o) {
    return read_bits(o, b64);
  };
  if (registers_in(ins.operands[3]) != 2 || registers_in(ins.operands[0]) != 2)
    refuse(ins, "a fragment has a wrong number of registers");
  out += "{ u64 A[32], B[32], C[32][2], D[32][2]; (void)g;\n" + std::string(kEach) +
         "A[l] = " + in(register_of(ins.operands[1], 0)) +
         "; B[l] = " + in(register_of(ins.operands[2], 0)) + "; " +
         gather("C", ins.operands[3], in) + "}\n";
  out += "mma_m8n8k4_f64(A, B, (const u64 (*)[2])C, D);\n" + std::string(kEach);
  for (size_t i = 0; i < 2; ++i)
    out += write(register_of(ins.operands[0], i), b64, "D[l][" + std::to_string(i) + "]");
  out += "} }\n";
}

// {ld,st}matrix.sync.aligned.m8n8.xN{.trans}.shared.b16
void FunctionEmitter::move_matrices(const Instruction& ins, std::string& out) const {
  bool store = ins.op == "stmatrix";
  size_t n = ins.has("x4") ? 4 : ins.has("x2") ? 2 : 1;
  const Operand &value = ins.operands.at(store ? 1 : 0), &where = ins.operands.at(store ? 0 : 1);
  if (!ins.has("m8n8") || !ins.has("b16") || registers_in(value) != n ||
      where.kind != OperandKind::address || where.elements.empty())
    refuse(ins);
  std::string base = f_.registers.count(where.elements[0].name)
                         ? reg(where.elements[0].name)
                         : symbol_address(where.elements[0].name, ins.line);
  bool generic = !ins.has("shared") && !ins.has("shared::cta");
  std::string at = generic ? "(u32)((u64)" + base + " - c->shared_base)" : "(u32)" + base;
  std::string arguments = "at, " + std::to_string(n) + ", " + (ins.has("trans") ? "1" : "0");
  auto in = [&](const Operand& o) {
    return read(o, kB32);
  };
  out += "{ u32 at[32], F[32][4]; (void)g;\n" + std::string(kEach) + "at[l] = " + at + " + (u32)" +
         hex((uint64_t)where.offset, 64) + "; " + (store ? gather("F", value, in) : "") + "}\n";
  if (store) {
    out += "store_matrices(c, " + arguments + ", (const u32 (*)[4])F); }\n";
    return;
  }
  out += "load_matrices(c, " + arguments + ", F);\n" + std::string(kEach);
  for (size_t i = 0; i < n; ++i)
    out += write(register_of(value, i), kB32, "F[l][" + std::to_string(i) + "]");
  out += "} }\n";
}

// movmatrix.sync.aligned.m8n8.trans.b16: lane l's two halves are row l/4, columns 2(l%4); the
// transposed ones are read from two lanes.
void FunctionEmitter::transpose_matrix(const Instruction& ins, std::string& out) const {
  out += "{ u16 m[8][8]; (void)g;\n" + std::string(kEach) +
         "u32 v = " + read(ins.operands.at(1), kB32) +
         "; m[l >> 2][(l & 3) * 2] = (u16)v; m[l >> 2][(l & 3) * 2 + 1] = (u16)(v >> 16); }\n" +
         kEach;
  out += write(ins.operands[0], kB32,
               "(u32)m[(l & 3) * 2][l >> 2] | (u32)m[(l & 3) * 2 + 1][l >> 2] << 16") +
         "} }\n";
}

}  // namespace softgpu::emit
