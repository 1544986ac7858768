#include "softgpu/emit/access.h"

#include <stdexcept>

#include "softgpu/emit/scope.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;

namespace {

constexpr int kMaxAccessBytes = 32;
constexpr int64_t kMaxGroupBytes = 4096;  // from the lowest to the highest offset

// The base of an address operand.
struct Base {
  std::string value = "0ULL";               // C expression of an integer
  std::string parameter;                    // C expression of the parameter's bytes, if it is one
  const ptx::Variable* variable = nullptr;  // null: a register or a number
};

Base base_of(const FunctionScope& scope, const Operand& where, Space space) {
  Base base;
  if (where.elements.empty()) return base;
  const std::string& name = where.elements[0].name;
  if (scope.is_register(name)) {
    Expr r = scope.reg(name);
    base.value = r.type.bits == 32 ? whole_address(space, r) : r.text;
    return base;
  }
  base.variable = scope.variable(name);
  if (scope.is_parameter(name))
    base.parameter = scope.parameter(name);
  else
    base.value = scope.symbol_address(name);
  return base;
}

bool is_outside(const ptx::Variable& v, const Place& place) {
  int64_t offset = place.where.offset;
  return offset < 0 || (uint64_t)offset > v.bytes ||
         (uint64_t)place.bytes > v.bytes - (uint64_t)offset;
}

// The size of the others is known when the kernel runs.
bool has_size(const ptx::Variable& v) {
  return !v.external && v.bytes;
}

void check_place(const FunctionScope& scope, const Place& place) {
  if (place.where.kind != OperandKind::address || place.where.elements.size() > 1)
    scope.refuse("it needs an address in brackets");
  if (place.bytes < 1 || place.bytes > kMaxAccessBytes || (place.bytes & (place.bytes - 1)))
    scope.refuse("it accesses more than 32 bytes");
}

// Parameters of a kernel lie in device memory too, but their copy in `params` is faster.
std::string in_parameter(const FunctionScope& scope, const Instruction& ins, const Place& place,
                         const Base& base) {
  bool plain = ins.op == "ld" || ins.op == "st";
  if (!plain || place.space != Space::param || !place.displacement.empty())
    scope.refuse("parameters are accessed by ld.param and st.param only");
  if (is_outside(*base.variable, place)) scope.refuse("the access is outside of its parameter");
  uint64_t start = scope.parameter_offset(base.variable->name);
  return render("single_parameter({}, {}, {}, {})", base.parameter,
                hex(start + (uint64_t)place.where.offset, 32), place.bytes,
                hex(start + base.variable->bytes, 64));
}

}  // namespace

std::string whole_address(Space space, const Expr& value) {
  if (space != Space::param && space != Space::local) return value.text;
  std::string base = space == Space::param ? "(u64)c->params" : "c->local_base";
  return render("({} + (u32)((u32){} - (u32){}))", base, value, base);
}

AddressText Access::single(const FunctionScope& scope, const Instruction& ins, const Place& place) {
  check_place(scope, place);
  if (auto it = scope.covered.find(&ins); it != scope.covered.end())
    return it->second.part(0, place.bytes);
  const Base base = base_of(scope, place.where, place.space);
  if (!base.parameter.empty()) return {in_parameter(scope, ins, place, base), place.bytes};
  std::string offset = hex((uint64_t)place.where.offset, 64);
  if (base.variable && has_size(*base.variable) && is_outside(*base.variable, place))
    return {render("single_outside(c, (u64){} + {})", base.value, offset), place.bytes};
  if (!place.displacement.empty()) offset += " + " + place.displacement;
  bool shared = place.space == Space::shared || (place.space == Space::none && base.variable &&
                                                 base.variable->space == Space::shared);
  if (shared)
    return {
        render("single_shared(c, &k, (u32){} + (u32)({}), {})", base.value, offset, place.bytes),
        place.bytes};
  return {render("single_global(c, (u64){} + {}, {})", base.value, offset, place.bytes),
          place.bytes};
}

AddressText Access::argument(size_t index, int bytes) {
  return {render("single_parameter(arg{}, 0, {}, {})", index, bytes, bytes), bytes};
}

CheckedRange Access::group(Code& out, const std::string& name, const FunctionScope& scope,
                           const GroupExtent& extent) {
  int64_t span = 0;
  if (__builtin_sub_overflow(extent.high, extent.low, &span) || span < 0 || span > kMaxGroupBytes)
    throw std::out_of_range("a group of accesses is too large");
  span += extent.bytes;
  std::string base = scope.reg(extent.base).text;
  std::string low = hex((uint64_t)extent.low, 64);
  if (extent.space == Space::shared)
    out.add("Access {} = group_shared(c, &k, (u32){} + (u32){}, {}, {})", name, base, low, span,
            extent.bytes);
  else
    out.add("Access {} = group_global(c, (u64){} + {}, {}, {})", name, base, low, span,
            extent.bytes);
  return {name, extent.low, extent.high + extent.bytes};
}

AddressText Access::row(Code& out, const std::string& name, size_t index, int bytes) {
  out.add("Access {}", name);
  out.add(
      "if (!is_row(&{}, addresses[0][{}], addresses[1][{}], addresses[2][{}], {}, length)) return 0",
      name, index, index, index, bytes);
  return {render("part({}, (u64)l * {})", name, bytes), bytes};
}

}  // namespace softgpu::emit
