// suld.b, sust.b, sured.b, and the formatted sust.p and sured.p: the driver accesses the surface.
#include "softgpu/device/cta.h"
#include "softgpu/emit/geometry.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

constexpr int kMaxBytes = 16;  // of one access

int operation_of(const FunctionScope& scope, const Instruction& ins, Type t) {
  if (ins.op == "suld") return SURFACE_LOAD;
  if (ins.op == "sust") return SURFACE_STORE;
  static const std::map<std::string, int> kOperations = {{"add", SURFACE_ADD},
                                                         {"min", SURFACE_MIN},
                                                         {"max", SURFACE_MAX},
                                                         {"and", SURFACE_AND},
                                                         {"or", SURFACE_OR}};
  const std::string* word = ins.take_one_of(kOperations);
  if (!word) scope.refuse();
  bool bitwise = *word == "and" || *word == "or", order = *word == "min" || *word == "max";
  // The format of the array determines the sign of the types of sured.p.
  bool matches = ins.has("p") ? t.bits == 32 || order : bitwise == (t.kind == 'b');
  if (!matches) scope.reject("the operation has another type");
  return kOperations.at(*word);
}

Type element_type(const FunctionScope& scope, const Instruction& ins, bool formatted) {
  Type t = last_type(ins);
  bool reduces = ins.op == "sured";
  bool integer = t.kind == 'b' || t.kind == 'u' || t.kind == 's';
  bool bits_only = !reduces || formatted;
  if (bits_only ? t.kind != 'b' : !integer || (t.kind == 'b' && t.bits == 64)) scope.refuse();
  if (t.bits > 64 || (reduces && t.bits < 32) || (formatted && !reduces && t.bits != 32))
    scope.refuse();
  return t;
}

void emit_access(const FunctionScope& scope, const Instruction& ins, const Geometry& g, Type t,
                 int elements, Code& out) {
  static const std::map<std::string, int> kBeyond = {
      {"trap", SURFACE_TRAP}, {"clamp", SURFACE_CLAMP}, {"zero", SURFACE_ZERO}};
  const std::string* beyond = ins.take_one_of(kBeyond);
  if (!beyond) scope.refuse();
  out.add("SurfaceAccess access = {0}");
  out.add("access.operation = {}", operation_of(scope, ins, t));
  out.add("access.beyond = {}", kBeyond.at(*beyond));
  out.add("access.dimensions = {}", g.dimensions);
  out.add("access.bytes = {}", t.bytes());
  out.add("access.elements = {}", elements);
  if (t.is_signed()) out.add("access.is_signed = 1");
  if (ins.has("p")) out.add("access.formatted = 1");
}

}  // namespace

void emit_surface(FunctionScope& scope, const Instruction& ins, Code& out) {
  bool formatted = ins.op != "suld" && ins.take("p");
  if ((!formatted && !ins.take("b")) || ins.operands.size() != 2) scope.refuse();
  Geometry g = geometry_of(scope, ins);
  Type t = element_type(scope, ins, formatted);
  int elements = vector_length(ins);
  bool loads = ins.op == "suld", reduces = ins.op == "sured";
  if (g.cube || t.bytes() * elements > kMaxBytes || (reduces && (g.layered || elements > 1)))
    scope.refuse();
  const Operand& value = ins.operands[loads ? 0 : 1];
  ObjectOperand surface(scope, ins.operands[loads ? 1 : 0], g, kS32);
  bool vector = value.kind == OperandKind::vector;
  auto element = [&](int i) -> const Operand& {
    return vector ? value.elements[(size_t)i] : value;
  };
  auto block = out.block("");
  emit_access(scope, ins, g, t, elements, out);
  if (g.layered) {
    out.add("access.layered = 1");
    out.add("access.layer = {}", surface.layer());
  }
  for (int i = 0; i < g.dimensions; ++i) out.add("access.where[{}] = {}", i, surface.coordinate(i));
  out.add("u64 values[4] = {0}");
  // A store may have a scalar in place of a vector: the other elements are undefined then.
  int stored = vector ? elements : 1;
  for (int i = 0; i < stored && !loads; ++i)
    out.add("values[{}] = ({}){}", i, storage(t), scope.read_bits(element(i), t));
  out.add("c->host->surface(c, {}, &access, values)", surface.object());
  for (int i = 0; i < elements && loads; ++i)
    if (element(i).kind != OperandKind::sink)
      scope.assign(out, element(i), expr({'u', t.bits}, "({})values[{}]", storage(t), i));
}

}  // namespace softgpu::emit
