// atom and red: thread blocks run on several worker threads, so all are atomic in C as well.
#include "softgpu/emit/access.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

struct Atomic {
  std::string operation;  // add, cas, …
  std::string packed;     // "f16x2" or "bf16x2"; empty for one element
  Type type;              // of one element in the C
};

Atomic decode(const FunctionScope& scope, const Instruction& ins) {
  static const std::set<std::string> kOperations = {"add", "and", "or",  "xor",  "min",
                                                    "max", "inc", "dec", "exch", "cas"};
  static const std::set<std::string> kBitwise = {"exch", "cas", "and", "or", "xor"};
  static const std::set<std::string> kIn16Bits = {"cas", "add", "exch"};
  Atomic a;
  static const std::set<std::string> kPacked = {"f16x2", "bf16x2"};
  if (auto* m = ins.take_one_of(kOperations)) a.operation = *m;
  if (auto* m = ins.take_one_of(kPacked)) a.packed = *m;
  bool only_add = vector_length(ins) > 1 || !a.packed.empty();
  if (a.operation.empty() || (only_add && a.operation != "add")) scope.refuse();
  a.type = a.packed.empty() ? last_type(ins) : kB32;
  if (a.type.bits == 128 || (a.type.bits == 16 && !kIn16Bits.count(a.operation))) scope.refuse();
  if (kBitwise.count(a.operation)) a.type = {'u', a.type.bits};
  if (a.type.kind == 'b') a.type.kind = 'u';
  return a;
}

}  // namespace

void emit_atomic(FunctionScope& scope, const Instruction& ins, Code& out) {
  Atomic atomic = decode(scope, ins);
  Type t = atomic.type;
  int elements = vector_length(ins);
  bool discards = ins.op == "red";
  size_t first = discards ? 0 : 1;
  auto element = [&](size_t operand, int i) -> const Operand& {
    const Operand& o = ins.operands.at(operand);
    if (elements == 1) return o;
    if (o.kind != OperandKind::vector || (size_t)i >= o.elements.size())
      scope.reject("the vector is too short");
    return o.elements[(size_t)i];
  };
  auto block = out.block("");
  Place place{ins.operands.at(first), state_space(ins), t.bytes() * elements, ""};
  AddressText a = Access::single(scope, ins, place).declare(out, "a");
  for (int i = 0; i < elements; ++i) {
    std::string arguments = scope.read(element(first + 1, i), t).text;
    if (atomic.operation == "cas")
      arguments += ", " + scope.read(ins.operands.at(first + 2), t).text;
    Expr call = expr(t, "atomic_{}_{}({}, {})", atomic.operation,
                     atomic.packed.empty() ? c_type(t) : atomic.packed,
                     a.part(i * t.bytes(), t.bytes()), arguments);
    if (discards)
      out.add("(void){}", call);
    else
      scope.assign(out, element(0, i), call);
  }
}

}  // namespace softgpu::emit
