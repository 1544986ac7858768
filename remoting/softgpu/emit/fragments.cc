#include "softgpu/emit/fragments.h"

#include <map>

namespace softgpu::emit {

using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

const Element* element_of(const std::string& word) {
  static const std::map<std::string, Element> kElements = {
      {"f16", {"E_F16", 2}},
      {"bf16", {"E_BF16", 2}},
      {"tf32", {"E_TF32", 1}},
      {"e4m3", {"E_E4M3", 4, false, true}},
      {"e5m2", {"E_E5M2", 4, false, true}},
      {"e3m2", {"E_E3M2", 4, false, true, true}},
      {"e2m3", {"E_E2M3", 4, false, true, true}},
      {"e2m1", {"E_E2M1", 4, false, true, true}},
      {"s8", {"E_S8", 4, true}},
      {"u8", {"E_U8", 4, true}}};
  auto it = kElements.find(word);
  return it == kElements.end() ? nullptr : &it->second;
}

Code::Block for_all_lanes(Code& out) {
  return out.block("for (u32 l = 0; l < 32; ++l)");
}

int registers_in(const Operand& o) {
  return o.kind == OperandKind::vector ? (int)o.elements.size() : 1;
}

const Operand& register_of(const Operand& o, int i) {
  return o.kind == OperandKind::vector ? o.elements.at((size_t)i) : o;
}

void gather(const FunctionScope& scope, const char* array, const Operand& from, Type t, Code& out) {
  for (int i = 0; i < registers_in(from); ++i)
    out.add("{}[l][{}] = {}", array, i, scope.read_bits(register_of(from, i), t));
}

void scatter(const FunctionScope& scope, const char* array, const Operand& to, Type t, Code& out) {
  auto lane = for_all_lanes(out);
  for (int i = 0; i < registers_in(to); ++i)
    scope.assign(out, register_of(to, i), expr(t, "{}[l][{}]", array, i));
}

void check_registers(const FunctionScope& scope, const Operand& o, int expected, Type type) {
  if (o.kind != OperandKind::vector || registers_in(o) != expected)
    scope.reject("a fragment has a wrong number of registers");
  for (auto& element : o.elements) {
    auto it = scope.function.registers.find(element.name);
    if (it == scope.function.registers.end() || it->second.bits != type.bits ||
        (it->second.is_float() && !type.is_float()))
      scope.reject("an element of a fragment is not a register of its size");
  }
}

}  // namespace softgpu::emit
