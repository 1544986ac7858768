// Coordinates of textures and surfaces: their number, order and types by the geometry of the
// object.
#pragma once
#include <string>

#include "softgpu/emit/scope.h"

namespace softgpu::emit {

struct Geometry {
  int dimensions = 0;  // of a layer or face
  bool layered = false, cube = false;
  size_t elements = 0;  // of the vector of coordinates, with unused ones

  int coordinates() const { return cube ? 3 : dimensions; }
};

// Return the geometry that an instruction names and mark it as used; refuse without one.
Geometry geometry_of(const FunctionScope& scope, const ptx::Instruction& ins);

// The operand `[object, coordinates]`. Checks the types of its registers.
class ObjectOperand {
 public:
  ObjectOperand(const FunctionScope& scope, const ptx::Operand& where, const Geometry& geometry,
                ptx::Type coordinate);
  Expr object() const;
  Expr layer() const;
  Expr coordinate(int dimension) const;

 private:
  static bool is_word(const FunctionScope& scope, const ptx::Operand& o);
  ptx::Operand element(size_t i) const;
  const FunctionScope& scope_;
  const ptx::Operand& where_;
  const Geometry geometry_;
  const ptx::Type type_;
};

// Reject an operand that is no register or constant of a type of 32 bits.
void check_scalar(const FunctionScope& scope, const ptx::Operand& o, ptx::Type type);

}  // namespace softgpu::emit
