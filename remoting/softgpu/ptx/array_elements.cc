#include "softgpu/ptx/array_elements.h"

#include <set>

#include "checked_size.h"

namespace softgpu::ptx {
namespace {
using Variables = std::map<std::string, Variable>;  // by name

const Variable* find(const Variables& declared, const Function& f, const std::string& name) {
  for (auto* list : {&f.variables, &f.params, &f.returns})
    for (auto& v : *list)
      if (v.name == name) return &v;
  auto it = declared.find(name);
  return it == declared.end() ? nullptr : &it->second;
}

// `a[%r]` is the address of `a` and the product of a register and the size of a scalar of `a`,
// which ptxas computes in 32 bits without a sign.
void resolve_register(const Variables& declared, const Function& f, const Instruction& ins,
                      Operand& o) {
  const Variable* v = find(declared, f, o.name);
  auto type = f.registers.find(o.elements[0].name);
  bool integer = type != f.registers.end() && !type->second.is_float() &&
                 type->second.kind != 'p' && type->second.bits <= 64;
  if (!v || v->dimensions.empty() || !integer || o.elements[0].negated)
    throw Refusal{ins.line, "instruction " + ins.op + ": " + o.name + "[" + o.elements[0].name +
                                "] is no element of an array by an integer"};
  if (ins.op != "mov")
    throw Refusal{ins.line, "instruction " + ins.op + ": " + o.name +
                                "[register] is supported in mov only: move it to a register, and "
                                "use this as the address"};
  o.offset = v->type.bytes();
  o.indexed = false;
}

void resolve(const Variables& declared, const Function& f, const Instruction& ins, Operand& o) {
  static const std::set<std::string> kAccesses = {"ld", "ldu", "st"};
  if (!o.elements.empty()) return resolve_register(declared, f, ins, o);
  bool accesses = kAccesses.count(ins.op) > 0;
  if (!accesses && ins.op != "mov" && !(ins.op == "cp" && ins.has("tensor")))
    throw Refusal{ins.line, "instruction " + ins.op + ": it takes no element of " + o.name};
  const Variable* v = find(declared, f, o.name);
  uint64_t bytes = v ? (uint64_t)v->type.bytes() : 0;
  bool has_elements = v && (!v->dimensions.empty() || v->vector);
  bool is_register = f.registers.count(o.name) > 0;
  if (o.index ? !has_elements : is_register || (accesses && !v))
    throw Refusal{ins.line, "instruction " + ins.op + ": " + o.name + " is no array with elements"};
  // NOLINTNEXTLINE(custom-unchecked-product): wraps as addresses do; accesses are checked
  o.offset = (int64_t)(bytes * (uint64_t)o.index);
  o.indexed = false;
  if (!accesses) return;
  Operand base{OperandKind::reg, o.name, 0, 0, false, {}};
  o = Operand{OperandKind::address, "", 0, o.offset, false, {}};
  o.elements.push_back(base);
}

}  // namespace

void resolve_elements(Function& f, const Variables& declared) {
  for (auto& ins : f.body)
    for (auto& o : ins.operands)
      if (o.indexed) resolve(declared, f, ins, o);
}

}  // namespace softgpu::ptx
