// cvt to and from pairs of floats of 8, 6 and 4 bits and of 8-bit exponents (ue8m0).
#include <map>
#include <optional>

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

struct SmallFloat {
  std::string name;
  int bits;  // of a value in the pair
};

std::optional<SmallFloat> small_float(const std::string& modifier) {
  static const std::map<std::string, SmallFloat> kFloats = {{"e4m3x2", {"e4m3", 8}},
                                                            {"e5m2x2", {"e5m2", 8}},
                                                            {"e3m2x2", {"e3m2", 8}},
                                                            {"e2m3x2", {"e2m3", 8}},
                                                            {"e2m1x2", {"e2m1", 4}}};
  auto it = kFloats.find(modifier);
  return it == kFloats.end() ? std::nullopt : std::optional(it->second);
}

Halves floats(const FunctionScope& scope, const Instruction& ins) {
  return {scope.read(ins.operands.at(1), kF32).text, scope.read(ins.operands.at(2), kF32).text};
}

void emit_from_small(const FunctionScope& scope, const Instruction& ins, const SmallFloat& from,
                     const char* limit, Code& out) {
  auto block = out.block("");
  out.add("u32 v = {}", scope.read(ins.operands[1], {'u', 2 * from.bits}));
  scope.assign(out, ins.operands[0],
               expr(kB32, "pack_f16({}(from_{}(v >> {})), {}(from_{}(v & {})))", limit, from.name,
                    from.bits, limit, from.name, (1 << from.bits) - 1));
}

// The two types of a conversion: of the result and of the source.
std::vector<std::string> pair_types(const Instruction& ins) {
  std::vector<std::string> types;
  for (auto& m : ins.mods)
    if (type_of(m) || m.find("x2") != std::string::npos) types.push_back(m);
  return types;
}

Halves halves_of(const FunctionScope& scope, const Instruction& ins, const std::string& type) {
  if (type == "f32" && ins.operands.size() == 3) return floats(scope, ins);
  if (type != "f16x2" || ins.operands.size() != 2) scope.refuse();
  return {"(f32)as_f16((u16)(v >> 16))", "(f32)as_f16((u16)v)",
          scope.read(ins.operands[1], kB32).text};
}

}  // namespace

// The first operand becomes the upper half.
bool emit_convert_small(FunctionScope& scope, const Instruction& ins, Code& out) {
  std::vector<std::string> types = pair_types(ins);
  if (types.size() != 2) return false;
  auto to = small_float(types[0]), from = small_float(types[1]);
  if (!to && !from) return false;
  const char* limit = ins.take("relu") ? "relu_f32" : "";
  if (!ins.take("rn") || !ins.take(types[0]) || !ins.take(types[1])) scope.refuse();
  if (from) {
    if (types[0] != "f16x2" || ins.operands.size() != 2) scope.refuse();
    emit_from_small(scope, ins, *from, limit, out);
    return true;
  }
  if (!ins.take("satfinite")) scope.refuse();
  Halves halves = halves_of(scope, ins, types[1]);
  auto block = out.block("");
  out.add("u32 v = {}", halves.packed);
  out.add("(void)v");
  scope.assign(out, ins.operands[0],
               expr({'b', 2 * to->bits}, "to_{}({}({})) << {} | to_{}({}({}))", to->name, limit,
                    halves.high, to->bits, to->name, limit, halves.low));
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
