// mma with .block_scale: parts of the rows of A and of the columns of B have scale factors.
#include <cstdint>

#include "softgpu/emit/cross_lane.h"
#include "softgpu/emit/fragments.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr size_t kOperands = 8;  // d, a, b, c, scales of A, their places, scales of B, their places
constexpr int kRegistersOfA = 4, kRegistersOfB = 2, kResults = 4;

// A valid combination of modifiers.
struct Kind {
  const char* name;
  const char* shape;
  int k;
  const char* vector;  // the number of scale factors for each row
  int count;           // this number
  bool is_default;     // the modifier may be left out
  const char* type;    // of the scale factors
};
constexpr Kind kKinds[] = {
    {"kind::mxf8f6f4", "m16n8k32", 32, "scale_vec::1X", 1, true, "ue8m0"},
    {"kind::mxf4", "m16n8k64", 64, "scale_vec::2X", 2, true, "ue8m0"},
    {"kind::mxf4nvf4", "m16n8k64", 64, "scale_vec::2X", 2, false, "ue8m0"},
    {"kind::mxf4nvf4", "m16n8k64", 64, "scale_vec::4X", 4, false, "ue8m0"},
    {"kind::mxf4nvf4", "m16n8k64", 64, "scale_vec::4X", 4, false, "ue4m3"},
};

const Kind& kind_of(const FunctionScope& scope, const Instruction& ins) {
  bool has_vector =
      ins.has("scale_vec::1X") || ins.has("scale_vec::2X") || ins.has("scale_vec::4X");
  for (auto& kind : kKinds) {
    bool vector = has_vector ? ins.has(kind.vector) : kind.is_default;
    if (!vector || !ins.has(kind.name) || !ins.has(kind.shape) || ins.mods.back() != kind.type)
      continue;
    for (const char* word : {kind.name, kind.shape, kind.vector, kind.type, "block_scale"})
      (void)ins.take(word);
    return kind;
  }
  scope.refuse("its kind, shape and scale factors do not fit");
}

// The vector {byte, lane} that selects scale factors: constants, or registers of 16 bits that have
// the same value in all lanes.
class Selector {
 public:
  Selector(const FunctionScope& scope, const Operand& o, uint64_t last_byte, uint64_t byte_step,
           uint64_t last_lane)
      : scope_(scope), operand_(o) {
    if (o.kind != OperandKind::vector || o.elements.size() != 2)
      scope.reject("scale factors are selected by {byte, thread}");
    check(o.elements[0], last_byte, byte_step);
    check(o.elements[1], last_lane, 1);
  }
  Expr byte() const { return scope_.read(operand_.elements[0], kU16); }
  Expr lane() const { return scope_.read(operand_.elements[1], kU16); }

 private:
  void check(const Operand& o, uint64_t last, uint64_t step) const {
    if (o.kind == OperandKind::integer) {
      if (o.bits > last || o.bits % step) scope_.reject("a selector of scale factors is too large");
      return;
    }
    auto it = scope_.function.registers.find(o.name);
    if (o.kind != OperandKind::reg || it == scope_.function.registers.end() ||
        it->second.bits != 16 || it->second.is_float())
      scope_.reject("a selector of scale factors has 16 bits");
  }
  const FunctionScope& scope_;
  const Operand& operand_;
};

// Return the operand with the scale factors. Of a vector, the first element counts.
const Operand& scales_of(const FunctionScope& scope, const Operand& o) {
  const Operand& scales = o.kind == OperandKind::vector ? o.elements[0] : o;
  bool is_address = scales.kind == OperandKind::symbol && scope.variable(scales.name);
  if (scales.kind == OperandKind::real32 || is_address) return scales;
  auto it = scope.function.registers.find(scales.name);
  if (scales.kind != OperandKind::reg || scales.negated || it == scope.function.registers.end() ||
      it->second.bits != 32)
    scope.reject("scale factors lie in a register of 32 bits");
  return scales;
}

// Return the constant of device/runtime/matrix.h for a type of elements.
std::string element_kind(const FunctionScope& scope, const Kind& kind, const std::string& word) {
  const Element* element = element_of(word);
  if (!element || !element->in_byte) scope.refuse();
  if (kind.k == 32) return element->kind;
  if (word != "e2m1") scope.refuse();
  return "E_PACKED_E2M1";
}

}  // namespace

void emit_scaled_mma(FunctionScope& scope, const Instruction& ins, Code& out) {
  const Kind& kind = kind_of(scope, ins);
  size_t words = ins.mods.size();
  if (words < 5 || ins.operands.size() != kOperands || !ins.take("row") || !ins.take("col") ||
      ins.take_at(words - 5) != "f32" || ins.take_at(words - 2) != "f32")
    scope.refuse();
  std::string a = element_kind(scope, kind, ins.take_at(words - 4));
  std::string b = element_kind(scope, kind, ins.take_at(words - 3));
  check_registers(scope, ins.operands[0], kResults, kF32);
  check_registers(scope, ins.operands[1], kRegistersOfA, kB32);
  check_registers(scope, ins.operands[2], kRegistersOfB, kB32);
  check_registers(scope, ins.operands[3], kResults, kF32);
  const Operand& scales_a = scales_of(scope, ins.operands[4]);
  const Operand& scales_b = scales_of(scope, ins.operands[6]);
  auto step = (uint64_t)kind.count;
  Selector of_a(scope, ins.operands[5], 4 - step, step, 1);
  Selector of_b(scope, ins.operands[7], 4 - step, step, 3);
  auto block = out.block("");
  out.add("u32 A[32][4], B[32][4], C[32][4], D[32][4], SA[32], SB[32]");
  out.add("u32 l = 0");
  out.add("(void)g");
  out.add("Scales scales = {{}, {}, {}, {}, {}, {}}", kind.count, of_a.byte(), of_a.lane(),
          of_b.byte(), of_b.lane(), kind.type == std::string("ue4m3") ? 1 : 0);
  {
    auto lane = out.block("for (; l < 32; ++l)");
    gather(scope, "A", ins.operands[1], kB32, out);
    gather(scope, "B", ins.operands[2], kB32, out);
    gather(scope, "C", ins.operands[3], kB32, out);
    out.add("SA[l] = {}", scope.read_bits(scales_a, kB32));
    out.add("SB[l] = {}", scope.read_bits(scales_b, kB32));
  }
  out.add("Mma shape = {16, {}, {}, {}, 0, 0}", kind.k, a, b);
  out.add("mma_scaled(&shape, &scales, A, B, C, SA, SB, D)");
  scatter(scope, "D", ins.operands[0], kB32, out);
}

}  // namespace softgpu::emit
