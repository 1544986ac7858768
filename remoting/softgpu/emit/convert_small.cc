// cvt to and from pairs of 8-bit floats (fp8) and of 8-bit exponents (ue8m0).
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;

namespace {

// The two source values of a conversion to a pair. With f16x2 and bf16x2 they are the halves of the
// variable `v`.
struct Halves {
  std::string high, low;
  std::string packed = "0";  // the value of `v`
};

std::string fp8_format(const std::string& modifier) {
  return modifier == "e4m3x2" ? "e4m3" : modifier == "e5m2x2" ? "e5m2" : "";
}

Halves floats(const FunctionScope& scope, const Instruction& ins) {
  return {scope.read(ins.operands.at(1), kF32).text, scope.read(ins.operands.at(2), kF32).text};
}

void emit_from_fp8(const FunctionScope& scope, const Instruction& ins, const std::string& format,
                   const char* limit, Code& out) {
  auto block = out.block("");
  out.add("u32 v = {}", scope.read(ins.operands[1], kU16));
  scope.assign(out, ins.operands[0],
               expr(kB32, "pack_f16({}(from_{}(v >> 8)), {}(from_{}(v & 255)))", limit, format,
                    limit, format));
}

}  // namespace

// The first operand becomes the upper byte.
bool emit_convert_fp8(FunctionScope& scope, const Instruction& ins, Code& out) {
  std::vector<std::string> types;
  for (auto& m : ins.mods)
    if (type_of(m) || m.find("x2") != std::string::npos) types.push_back(m);
  if (types.size() != 2) return false;
  std::string to = fp8_format(types[0]), from = fp8_format(types[1]);
  if (to.empty() && from.empty()) return false;
  const char* limit = ins.take("relu") ? "relu_f32" : "";
  if (!ins.take("rn") || !ins.take(types[0]) || !ins.take(types[1])) scope.refuse();
  if (from.empty() && !ins.take("satfinite")) scope.refuse();
  if (!from.empty()) {
    if (types[0] != "f16x2" || ins.operands.size() != 2) scope.refuse();
    emit_from_fp8(scope, ins, from, limit, out);
    return true;
  }
  Halves halves;
  if (types[1] == "f32" && ins.operands.size() == 3)
    halves = floats(scope, ins);
  else if (types[1] == "f16x2" && ins.operands.size() == 2)
    halves = {"(f32)as_f16((u16)(v >> 16))", "(f32)as_f16((u16)v)",
              scope.read(ins.operands[1], kB32).text};
  else
    scope.refuse();
  auto block = out.block("");
  out.add("u32 v = {}", halves.packed);
  out.add("(void)v");
  scope.assign(out, ins.operands[0],
               expr(kB16, "to_{}({}({})) << 8 | to_{}({}({}))", to, limit, halves.high, to, limit,
                    halves.low));
  return true;
}

// Scale factors of blocks: two exponents in 16 bits.
bool emit_convert_e8m0(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (!ins.take("ue8m0x2")) return false;
  const std::string& from = ins.take_at(ins.mods.size() - 1);
  auto block = out.block("");
  if (from == "ue8m0x2") {
    if (!ins.take("bf16x2") || !ins.take("rn")) scope.refuse();
    out.add("u32 v = {}", scope.read(ins.operands.at(1), kU16));
    scope.assign(out, ins.operands[0], expr(kB32, "pack_bf16(from_e8m0(v >> 8), from_e8m0(v))"));
    return true;
  }
  Halves halves;
  if (from == "f32")
    halves = floats(scope, ins);
  else if (from == "bf16x2")
    halves = {"as_bf16((u16)(v >> 16))", "as_bf16((u16)v)",
              scope.read(ins.operands.at(1), kB32).text};
  else
    scope.refuse();
  int up = ins.take("rp") ? 1 : 0;
  if (!up && !ins.take("rz")) scope.refuse();
  int beyond = ins.take("satfinite") ? 254 : 255;
  out.add("u32 v = {}", halves.packed);
  out.add("(void)v");
  scope.assign(out, ins.operands[0],
               expr(kB16, "to_e8m0({}, {}, {}) << 8 | to_e8m0({}, {}, {})", halves.high, up, beyond,
                    halves.low, up, beyond));
  return true;
}

}  // namespace softgpu::emit
