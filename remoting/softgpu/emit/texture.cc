// tex and tld4: the driver reads the texture. Forms with samplers or comparisons of depths are
// refused: CUDA sets neither.
#include "softgpu/device/cta.h"
#include "softgpu/emit/geometry.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

// The texel that an instruction returns, and the type of its coordinates.
struct Types {
  Type texel, coordinate;
  bool pairs = false;  // two registers with two halves each
  size_t registers() const { return pairs ? 2 : 4; }
};

Types types_of(const FunctionScope& scope, const Instruction& ins) {
  std::optional<Type> coordinate;
  if (!ins.mods.empty()) coordinate = type_of(ins.take_at(ins.mods.size() - 1));
  Types t;
  t.coordinate = coordinate.value_or(kF32);
  t.pairs = ins.take("f16x2");
  t.texel = t.pairs ? kB32 : first_type(ins);
  bool known = t.pairs || t.texel == kF16 || (t.texel.bits == 32 && t.texel.kind != 'b');
  if (!coordinate || !known || (t.coordinate != kF32 && t.coordinate != kS32) ||
      (ins.op == "tld4" && t.texel.bits != 32) || !ins.take(t.pairs ? "v2" : "v4"))
    scope.refuse();
  return t;
}

// The operands behind the address, one after the other.
class Rest {
 public:
  Rest(const FunctionScope& scope, const Instruction& ins) : scope_(scope), ins_(ins) {}
  const Operand& next(const char* missing) {
    if (at_ >= ins_.operands.size()) scope_.reject(missing);
    return ins_.operands[at_++];
  }
  bool empty() const { return at_ >= ins_.operands.size(); }

 private:
  const FunctionScope& scope_;
  const Instruction& ins_;
  size_t at_ = 2;
};

// Append an assignment for each dimension of a vector operand, which has `type`. An offset may have
// elements behind them, which are not used.
void emit_vector(const FunctionScope& scope, const Operand& o, int dimensions, Type type,
                 const char* member, Code& out) {
  size_t needed = dimensions == 3 ? 4 : (size_t)dimensions, elements = o.elements.size();
  bool fits = elements == needed || (!type.is_float() && elements > needed && elements != 3);
  if (o.kind != OperandKind::vector || !fits || elements > 4)
    scope.reject("a vector needs an element for each coordinate");
  for (auto& element : o.elements) check_scalar(scope, element, type);
  for (int i = 0; i < dimensions; ++i)
    out.add("read.{}[{}] = {}", member, i, scope.read(o.elements[(size_t)i], type));
}

// Append what determines the level.
void emit_level(const FunctionScope& scope, const Instruction& ins, const Geometry& g,
                Type coordinate, Rest& rest, Code& out) {
  if (ins.take("level")) {
    const Operand& level = rest.next("it has no level");
    // The elements behind the first of a vector are not used.
    const Operand& number = level.kind == OperandKind::vector ? level.elements[0] : level;
    check_scalar(scope, number, coordinate);
    out.add("read.mode = {}", (int)TEXTURE_LEVEL);
    out.add("read.level = (double){}", scope.read(number, coordinate));
  } else if (ins.take("grad")) {
    if (coordinate != kF32) scope.refuse();
    out.add("read.mode = {}", (int)TEXTURE_GRADIENT);
    const Operand& across = rest.next("it has no derivatives");
    emit_vector(scope, across, g.coordinates(), kF32, "across", out);
    const Operand& along = rest.next("it has derivatives of one direction only");
    emit_vector(scope, along, g.coordinates(), kF32, "along", out);
  } else {
    (void)ins.take("base");
  }
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

void emit_offset(const FunctionScope& scope, const Geometry& g, Rest& rest, Code& out) {
  if (rest.empty()) return;
  const Operand& offset = rest.next("");
  if (offset.kind != OperandKind::vector)
    scope.refuse("comparisons of depths: CUDA has no function that sets the comparison");
  if (g.cube) scope.reject("coordinates of a cube have no offset");
  emit_vector(scope, offset, g.dimensions, kS32, "offset", out);
  if (!rest.empty())
    scope.refuse("comparisons of depths: CUDA has no function that sets the comparison");
}

Expr half(const char* texel, size_t i) {
  return expr(kU32, "(u32)bits_f16((f16)as_f32({}[{}]))", texel, i);
}

void emit_result(const FunctionScope& scope, const Operand& to, const Types& types, Code& out) {
  const Operand& vector = to.kind == OperandKind::pair ? to.elements[0] : to;
  if (vector.kind != OperandKind::vector || vector.elements.size() != types.registers())
    scope.refuse();
  for (size_t i = 0; i < types.registers(); ++i) {
    const Operand& element = vector.elements[i];
    if (element.kind == OperandKind::sink) continue;
    if (types.pairs)
      scope.assign(out, element,
                   expr(kU32, "{} | {} << 16", half("texel", 2 * i), half("texel", 2 * i + 1)));
    else if (types.texel == kF16)
      scope.assign(out, element, expr(kU16, "(u16){}", half("texel", i)));
    else
      scope.assign(out, element, expr(kU32, "texel[{}]", i));
  }
  // All texels are in memory: there are no sparse arrays.
  if (to.kind == OperandKind::pair) scope.assign(out, to.elements[1], {"1", kPredicate});
}

}  // namespace

void emit_texture(FunctionScope& scope, const Instruction& ins, Code& out) {
  Geometry g = geometry_of(scope, ins);
  Types types = types_of(scope, ins);
  if (g.cube && types.coordinate != kF32) scope.refuse();
  if (ins.operands.size() < 2) scope.reject("it needs a texture");
  ObjectOperand from(scope, ins.operands[1], g, types.coordinate);
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
  Rest rest(scope, ins);
  if (ins.op == "tld4")
    emit_component(scope, ins, g, types.coordinate, out);
  else
    emit_level(scope, ins, g, types.coordinate, rest, out);
  emit_offset(scope, g, rest, out);
  out.add("u32 texel[4]");
  out.add("c->host->texture(c, {}, &read, texel)", from.object());
  emit_result(scope, ins.operands[0], types, out);
}

}  // namespace softgpu::emit
