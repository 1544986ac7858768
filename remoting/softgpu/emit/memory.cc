// ld st and cp.async.
#include <set>

#include "softgpu/emit/access.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

namespace {

// The bits of a value in memory.
Type raw_type(Type t) {
  return {t.is_signed() ? 's' : 'u', t.bits};
}

Ordering ordering(const Instruction& ins) {
  return is_ordered(ins) ? Ordering::ordered : Ordering::none;
}

// Return the number of bytes that a cp.async reads: a fourth operand is their number, or a
// predicate that ignores the source. Nothing is read from the source then.
std::string copied_bytes(const FunctionScope& scope, const Instruction& ins) {
  size_t operands = ins.operands.size() - (ins.has("L2::cache_hint") ? 1 : 0);
  uint64_t bytes = ins.operands[2].bits;
  if (operands <= 3) return std::to_string(bytes);
  const Operand& last = ins.operands[3];
  auto type = scope.function.registers.find(last.name);
  if (type != scope.function.registers.end() && type->second == kPredicate)
    return render("({} ? 0 : {})", scope.read(last, kPredicate), bytes);
  return scope.read(last, kU32).text;
}

}  // namespace

void emit_memory_access(FunctionScope& scope, const Instruction& ins, Code& out) {
  Type t = last_type(ins);
  if (t.bits == 128) scope.refuse();
  bool store = ins.op == "st";
  const Operand& value = ins.operands.at(store ? 1 : 0);
  const Operand& where = ins.operands.at(store ? 0 : 1);
  int elements = vector_length(ins), bytes = t.bytes() * elements;
  auto block = out.block("");
  AddressText a =
      Access::single(scope, ins, {where, state_space(ins), bytes, ""}).declare(out, "a");
  for (int i = 0; i < elements; ++i) {
    bool vector = value.kind == OperandKind::vector;
    if (vector && (size_t)i >= value.elements.size()) scope.reject("the vector is too short");
    const Operand& element = vector ? value.elements[(size_t)i] : value;
    Type raw = raw_type(t);
    int offset = i * t.bytes();
    if (store)
      a.store(out, offset, expr(raw, "({}){}", c_type(raw), scope.read_bits(element, t)),
              ordering(ins));
    else
      scope.assign(out, element, a.load(raw, offset, ordering(ins)));
  }
}

// cp.async.{ca,cg}.shared.global [to], [from], bytes{, bytes that are read}. The copy is done at
// once, so groups and waits need no code.
void emit_copy_async(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (ins.has("bulk")) return emit_bulk_copy(scope, ins, out);
  if (!ins.take("async")) scope.refuse();
  if (ins.has("mbarrier")) {
    if (!ins.take("mbarrier") || !ins.take("arrive")) scope.refuse();
    (void)last_type(ins);
    Space space = state_space(ins);
    // All earlier copies are complete: the arrival remains. Without noinc it cancels out with the
    // increment of the pending count.
    if (ins.take("noinc"))
      out.add("(void)mbarrier_arrive({}, 1, 0)",
              Access::single(scope, ins, {ins.operands.at(0), space, 8, ""}));
    return;
  }
  static const std::set<std::string> kGroups = {"commit_group", "wait_group", "wait_all"};
  if (ins.take_one_of(kGroups)) return;
  size_t n = ins.operands.size();
  if (n < 3 || ins.operands[2].kind != OperandKind::integer) scope.refuse();
  uint64_t bytes = ins.operands[2].bits;
  if (bytes != 4 && bytes != 8 && bytes != 16) scope.refuse("it copies 4, 8 or 16 bytes");
  if (!ins.take("shared") && !ins.take("shared::cta") && !ins.take("shared::cluster"))
    scope.refuse();
  auto block = out.block("");
  out.add("u32 available = {}", copied_bytes(scope, ins));
  out.add("Access to = {}",
          Access::single(scope, ins, {ins.operands[0], Space::shared, (int)bytes, ""}));
  {
    auto some = out.block("if (available)");
    out.add("copy_async(to, {}, {}, available)",
            Access::single(scope, ins, {ins.operands[1], Space::global, (int)bytes, ""}), bytes);
  }
  out.add("else clear_async(to, {})", bytes);
}

}  // namespace softgpu::emit
