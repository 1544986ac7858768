// tex and tld4: the driver reads the texture; forms with offsets, comparisons, samplers or narrow
// types are refused.
#include "softgpu/device/cta.h"
#include "softgpu/emit/geometry.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

// The types of texels and of coordinates.
struct Types {
  Type texel, coordinate;
};

Types types_of(const FunctionScope& scope, const Instruction& ins) {
  std::optional<Type> coordinate;
  if (!ins.mods.empty()) coordinate = type_of(ins.take_at(ins.mods.size() - 1));
  Types t{first_type(ins), coordinate.value_or(kF32)};
  if (!coordinate || t.texel.bits != 32 || t.texel.kind == 'b' ||
      (t.coordinate != kF32 && t.coordinate != kS32))
    scope.refuse();
  return t;
}

// The derivatives of the coordinates, for tex.grad.
void emit_derivatives(const FunctionScope& scope, const Operand& o, const Geometry& g, bool along,
                      Code& out) {
  size_t elements = g.coordinates() == 3 ? 4 : (size_t)g.coordinates();
  if (o.kind != OperandKind::vector || o.elements.size() != elements)
    scope.reject("derivatives are a vector with an element for each coordinate");
  for (auto& element : o.elements) check_scalar(scope, element, kF32);
  for (int i = 0; i < g.dimensions; ++i) {
    Expr value = scope.read(o.elements[(size_t)i], kF32);
    if (along)
      out.add("read.along[{}] = (double){}", i, value);
    else
      out.add("read.across[{}] = (double){}", i, value);
  }
}

// Append what determines the level. Return the number of operands.
size_t emit_level(const FunctionScope& scope, const Instruction& ins, const Geometry& g,
                  Type coordinate, Code& out) {
  if (ins.take("level")) {
    if (ins.operands.size() < 3) scope.reject("it has no level");
    const Operand& level = ins.operands[2];
    bool vector = level.kind == OperandKind::vector;
    if (vector && level.elements.size() != 1) scope.reject("its level is no number");
    const Operand& number = vector ? level.elements[0] : level;
    check_scalar(scope, number, coordinate);
    out.add("read.mode = {}", (int)TEXTURE_LEVEL);
    out.add("read.level = (double){}", scope.read(number, coordinate));
    return 3;
  }
  if (ins.take("grad")) {
    if (ins.operands.size() < 4 || g.cube || coordinate != kF32) scope.refuse();
    out.add("read.mode = {}", (int)TEXTURE_GRADIENT);
    emit_derivatives(scope, ins.operands[2], g, false, out);
    emit_derivatives(scope, ins.operands[3], g, true, out);
    return 4;
  }
  (void)ins.take("base");
  return 2;
}

// Append the component that tld4 gathers.
void emit_component(const FunctionScope& scope, const Instruction& ins, const Geometry& g,
                    Type coordinate, Code& out) {
  static const std::map<std::string, int> kComponents = {{"r", 0}, {"g", 1}, {"b", 2}, {"a", 3}};
  const std::string* component = ins.take_one_of(kComponents);
  if (!component || g.dimensions != 2 || coordinate != kF32) scope.refuse();
  out.add("read.gather = 1");
  out.add("read.component = {}", kComponents.at(*component));
}

}  // namespace

void emit_texture(FunctionScope& scope, const Instruction& ins, Code& out) {
  Geometry g = geometry_of(scope, ins);
  auto [texel, coordinate] = types_of(scope, ins);
  bool gathers = ins.op == "tld4";
  if (!ins.take("v4") || ins.operands.size() < 2 || (g.cube && coordinate != kF32)) scope.refuse();
  const Operand& to = ins.operands[0];
  if (to.kind != OperandKind::vector || to.elements.size() != 4) scope.refuse();
  ObjectOperand from(scope, ins.operands[1], g, coordinate);
  auto block = out.block("");
  out.add("TextureRead read = {0}");
  out.add("read.dimensions = {}", g.dimensions);
  if (g.layered) {
    out.add("read.layered = 1");
    out.add("read.layer = {}", from.layer());
  }
  if (g.cube) out.add("read.cube = 1");
  for (int i = 0; i < g.coordinates(); ++i)
    out.add("read.where[{}] = (double){}", i, from.coordinate(i));
  size_t operands = 2;
  if (gathers)
    emit_component(scope, ins, g, coordinate, out);
  else
    operands = emit_level(scope, ins, g, coordinate, out);
  if (ins.operands.size() != operands) scope.refuse("offsets and comparisons");
  out.add("u32 texel[4]");
  out.add("c->host->texture(c, {}, &read, texel)", from.object());
  for (size_t i = 0; i < 4; ++i)
    if (to.elements[i].kind != OperandKind::sink)
      scope.assign(out, to.elements[i], expr(kU32, "texel[{}]", i));
}

}  // namespace softgpu::emit
