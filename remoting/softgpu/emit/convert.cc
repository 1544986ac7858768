// mov cvt cvta isspacep and the packing forms.
#include "softgpu/emit/access.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

std::string rounding(const Instruction& ins) {
  for (const char* m : {"rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp"})
    if (ins.take(m)) return m;
  return "";
}

bool is_directed(const std::string& rounding) {
  return rounding == "rz" || rounding == "rm" || rounding == "rp";
}

bool is_integral(const std::string& rounding) {
  return rounding.size() == 3;
}

Expr float_to_float(const FunctionScope& scope, const std::string& mode, Type to,
                    const Expr& value) {
  Type from = value.type;
  std::string c = c_type(to);
  if (from.bits < to.bits && !mode.empty()) scope.refuse("modifier ." + mode);
  if (is_integral(mode)) {
    if (to != from) scope.refuse("modifier ." + mode);
    return expr(to, "round_{}_{}({})", mode, c, value);
  }
  if (to == kF32 && from.bits == 64 && is_directed(mode))
    return expr(to, "narrow_{}({})", mode, value);
  if (to.bits == 16 && is_directed(mode))
    return expr(to, "narrow_{}_{}((long double){})", mode, c, value);
  return expr(to, "({}){}", c, value);
}

Expr converted(const FunctionScope& scope, const Instruction& ins, Type to, const Expr& value) {
  std::string c = c_type(to);
  bool from_float = value.type.is_float(), saturates = !to.is_float() && ins.take("sat");
  if (!from_float && !to.is_float())
    return saturates ? expr(to, "sat_{}((s128){})", c, value) : expr(to, "({}){}", c, value);
  std::string mode = rounding(ins);
  if (from_float && to.is_float()) return float_to_float(scope, mode, to, value);
  if (is_integral(mode) != from_float && !mode.empty()) scope.refuse("modifier ." + mode);
  if (from_float)  // this always saturates
    return expr(to, "to_{}(round_{}((f64){}))", c, mode.empty() ? "rzi" : mode, value);
  if (is_directed(mode)) return expr(to, "int_{}_{}((s128){})", mode, c, value);
  return expr(to, "({}){}", c, value);
}

void emit_cvt_tf32(const FunctionScope& scope, const Instruction& ins, Code& out) {
  int mode = ins.take("rna") ? 0 : ins.take("rz") ? 2 : 1;
  if ((mode == 1 && !ins.take("rn")) || !ins.take("tf32") || !ins.take("f32")) scope.refuse();
  scope.assign(out, ins.operands[0],
               expr(kB32, "to_tf32({}, {}, {})", scope.read(ins.operands[1], kF32), mode,
                    ins.take("relu") ? 1 : 0));
}

// Two floats to a pair of half-precision numbers.
void emit_cvt_pair(const FunctionScope& scope, const Instruction& ins, const std::string& pair,
                   Code& out) {
  if (ins.operands.size() != 3 || ins.mods.back() != "f32") scope.refuse();
  (void)last_type(ins);
  std::optional<Type> named = type_of(pair.substr(0, pair.size() - 2));
  if (!named) scope.refuse();
  Type element = *named;
  std::string mode = rounding(ins);
  if (mode != "rn" && mode != "rz") scope.refuse();
  auto half = [&](size_t operand) {
    Expr value = float_to_float(scope, mode, element, scope.read(ins.operands[operand], kF32));
    if (ins.take("relu")) value = expr(element, "relu_{}({})", c_type(element), value);
    return expr(kB16, "bits_{}({})", c_type(element), value);
  };
  scope.assign(out, ins.operands[0], expr(kB32, "(u32){} << 16 | {}", half(1), half(2)));
}

// Two types: destination and source, in the order written.
void emit_cvt_scalar(const FunctionScope& scope, const Instruction& ins, Code& out) {
  std::vector<Type> types;
  for (size_t i = 0; i < ins.mods.size(); ++i)
    if (auto type = type_of(ins.mods[i])) {
      (void)ins.take_at(i);
      types.push_back(*type);
    }
  if (types.size() != 2) scope.refuse();
  Type to = types[0], from = types[1];
  Expr value = scope.read(ins.operands.at(1), from);
  bool flushes = (from == kF32 || to == kF32) && ins.take("ftz");
  if (flushes && from == kF32) value = expr(from, "ftz_f32({})", value);
  Expr result = converted(scope, ins, to, value);
  if (to.is_float() && to != kBF16 && ins.take("sat"))
    result = expr(to, "sat_{}({})", c_type(to), result);
  if (from.is_float() && to.is_float() && to.bits == 16 && ins.take("relu"))
    result = expr(to, "relu_{}({})", c_type(to), result);
  if (flushes && to == kF32) result = expr(to, "ftz_f32({})", result);
  scope.assign(out, ins.operands[0], result);
}

// {a, b, ...} to one register: the first element is in the low bits.
Expr joined(const FunctionScope& scope, const Operand& elements, Type t) {
  Type part{'b', t.bits / (int)elements.elements.size()};
  Expr value{"0", {'b', t.bits}};
  int shift = 0;
  for (auto& e : elements.elements) {
    value = expr(value.type, "{} | (({})({}){} << {})", value, storage(t), storage(part),
                 scope.read_bits(e, part), shift);
    shift += part.bits;
  }
  return value;
}

// One register to {a, b, ...}.
void emit_split(const FunctionScope& scope, const Operand& to, const Operand& from, Type t,
                Code& out) {
  Type part{'b', t.bits / (int)to.elements.size()};
  auto block = out.block("");
  out.add("{} v = {}", storage(t), scope.read(from, {'b', t.bits}));
  for (size_t i = 0; i < to.elements.size(); ++i)
    if (to.elements[i].kind != OperandKind::sink)
      scope.assign(out, to.elements[i],
                   expr(part, "({})(v >> {})", storage(part), (int)i * part.bits));
}

}  // namespace

void emit_convert(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (ins.mods.size() >= 2 && ins.has("tf32")) return emit_cvt_tf32(scope, ins, out);
  if (emit_convert_small(scope, ins, out) || emit_convert_e8m0(scope, ins, out)) return;
  for (auto& m : ins.mods)
    if ((m == "f16x2" || m == "bf16x2") && ins.take(m)) return emit_cvt_pair(scope, ins, m, out);
  emit_cvt_scalar(scope, ins, out);
}

void emit_convert_address(FunctionScope& scope, const Instruction& ins, Code& out) {
  Expr value = scope.read(ins.operands.at(1), kU64);
  bool to_space = ins.take("to");
  (void)last_type(ins);
  if (state_space(ins) == ptx::Space::shared)
    value = to_space ? expr(kU64, "({} - k.shared_base)", value)
                     : expr(kU64, "(k.shared_base + (u32){})", value);
  else if (!to_space)
    value.text = whole_address(state_space(ins), value);
  scope.assign(out, ins.operands[0], value);
}

void emit_test_address(FunctionScope& scope, const Instruction& ins, Code& out) {
  Expr a = scope.read(ins.operands.at(1), kU64);
  std::string shared = render("({} - k.shared_base < k.shared_bytes)", a);
  std::string local = render("({} - c->local_base < c->local_span)", a);
  Expr result{"0", kPredicate};
  switch (state_space(ins)) {
    case ptx::Space::shared: result.text = shared; break;
    case ptx::Space::local: result.text = local; break;
    case ptx::Space::global: result.text = render("(!{} && !{})", shared, local); break;
    default: break;
  }
  scope.assign(out, ins.operands[0], result);
}

void emit_move(FunctionScope& scope, const Instruction& ins, Code& out) {
  Type t = last_type(ins);
  const Operand &to = ins.operands.at(0), &from = ins.operands.at(1);
  if (from.kind == OperandKind::vector)
    scope.assign(out, to, joined(scope, from, t));
  else if (to.kind == OperandKind::vector)
    emit_split(scope, to, from, t, out);
  else if (t.kind == 'p')
    scope.assign(out, to, scope.read(from, t));
  else
    scope.assign(out, to, {scope.read_bits(from, t).text, {'b', t.bits}});
}

}  // namespace softgpu::emit
