#include "softgpu/emit/geometry.h"

#include <map>

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

Geometry geometry_of(const FunctionScope& scope, const Instruction& ins) {
  static const std::map<std::string, Geometry> kGeometries = {
      {"1d", {1, false, false, 1}},  {"2d", {2, false, false, 2}}, {"3d", {3, false, false, 4}},
      {"a1d", {1, true, false, 2}},  {"a2d", {2, true, false, 4}}, {"cube", {2, false, true, 4}},
      {"acube", {2, true, true, 4}},
  };
  const std::string* word = ins.take_one_of(kGeometries);
  if (!word) scope.refuse();
  return kGeometries.at(*word);
}

void check_scalar(const FunctionScope& scope, const Operand& o, Type type) {
  bool constant = o.kind == OperandKind::integer || o.kind == OperandKind::real32 ||
                  o.kind == OperandKind::real64;
  if (constant) {
    if (type.is_float() == (o.kind == OperandKind::integer))
      scope.reject("a constant has a wrong type");
    return;
  }
  if (o.kind == OperandKind::symbol && !type.is_float() && scope.variable(o.name)) return;
  auto own = scope.function.registers.find(o.name);
  if (o.kind != OperandKind::reg || o.negated || own == scope.function.registers.end())
    scope.reject("an operand is no register");
  const Type& t = own->second;
  bool matches = t.kind == 'b' || (t.kind != 'p' && t.is_float() == type.is_float());
  if (t.bits != type.bits || !matches) scope.reject(o.name + " has a wrong type");
}

ObjectOperand::ObjectOperand(const FunctionScope& scope, const Operand& where,
                             const Geometry& geometry, Type coordinate)
    : scope_(scope), where_(where), geometry_(geometry), type_(coordinate) {
  if (where.kind != OperandKind::address || where.elements.size() < 2 || where.offset)
    scope.refuse();
  if (where.elements.size() > 2)
    scope.refuse("samplers: CUDA has no function that creates one apart from its texture");
  const Operand& at = where.elements[1];
  check_scalar(scope, where.elements[0], kU64);
  bool vector = at.kind == OperandKind::vector;
  size_t elements = vector ? at.elements.size() : 1;  // those behind the coordinates are not used
  bool mixed = geometry.layered && coordinate.is_float();
  bool few = elements < geometry.elements && (vector || mixed);
  if (few || elements == 3 || elements > 4) scope.reject("it has a wrong number of coordinates");
  // The registers behind the first of integers may have any type of 32 bits.
  bool bits = vector && !coordinate.is_float() && at.elements[0].kind == OperandKind::reg;
  for (size_t i = 0; i < elements; ++i)
    if (i == 0 || !bits || !is_word(scope, at.elements[i]))
      check_scalar(scope, at.kind == OperandKind::vector ? at.elements[i] : at,
                   geometry.layered && i == 0 ? kU32 : coordinate);
}

// Return whether an operand is a register of 32 bits.
bool ObjectOperand::is_word(const FunctionScope& scope, const Operand& o) {
  auto own = scope.function.registers.find(o.name);
  return o.kind == OperandKind::reg && !o.negated && own != scope.function.registers.end() &&
         own->second.bits == 32;
}

// A scalar is the first of several coordinates, and the others are 0: ptxas leaves them undefined.
Operand ObjectOperand::element(size_t i) const {
  const Operand& at = where_.elements[1];
  if (at.kind == OperandKind::vector) return at.elements[i];
  return i == 0 ? at : Operand{OperandKind::integer};
}

Expr ObjectOperand::object() const {
  return scope_.read(where_.elements[0], kU64);
}

Expr ObjectOperand::layer() const {
  return scope_.read(element(0), kU32);
}

Expr ObjectOperand::coordinate(int dimension) const {
  return scope_.read(element((size_t)dimension + (geometry_.layered ? 1 : 0)), type_);
}

}  // namespace softgpu::emit
