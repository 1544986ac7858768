// setp set selp slct testp
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

// Comparisons that are false for NaN, and those that are true.
const std::map<std::string, std::string> kOrdered = {{"eq", "=="}, {"lt", "<"},  {"le", "<="},
                                                     {"gt", ">"},  {"ge", ">="}, {"lo", "<"},
                                                     {"ls", "<="}, {"hi", ">"},  {"hs", ">="}};
const std::map<std::string, std::string> kUnordered = {
    {"equ", "=="}, {"ltu", "<"}, {"leu", "<="}, {"gtu", ">"}, {"geu", ">="}};

// Return the comparison `op` as an expression of 0 or 1; nullopt if there is no such comparison.
std::optional<Expr> comparison(const std::string& op, const Expr& a, const Expr& b) {
  if (op == "ne" && a.type.is_float()) return expr(kPredicate, "({} < {} || {} > {})", a, b, a, b);
  if (op == "ne" || op == "neu") return expr(kPredicate, "({} != {})", a, b);
  if (auto it = kOrdered.find(op); it != kOrdered.end())
    return expr(kPredicate, "({} {} {})", a, it->second, b);
  std::string nan = render("({} != {} || {} != {})", a, a, b, b);
  if (auto it = kUnordered.find(op); it != kUnordered.end())
    return expr(kPredicate, "({} {} {} || {})", a, it->second, b, nan);
  if (op == "nan") return Expr{nan, kPredicate};
  if (op == "num") return expr(kPredicate, "(!{})", nan);
  return std::nullopt;
}

// Return the comparison that an instruction names, of values of type `t`.
Expr compared(const FunctionScope& scope, const Instruction& ins, Type t, Expr a, Expr b) {
  if ((t == kF32 || t == kF16) && ins.take("ftz")) {
    a = expr(t, "ftz_{}({})", c_type(t), a);
    b = expr(t, "ftz_{}({})", c_type(t), b);
  }
  for (size_t i = 0; i < ins.mods.size(); ++i)
    if (auto c = comparison(ins.mods[i], a, b)) {
      ins.take_at(i);
      return *c;
    }
  scope.reject("it names no known comparison");
}

// Return `value` joined with the third source operand, if there is one.
Expr combined(const FunctionScope& scope, const Instruction& ins, const Expr& value) {
  if (ins.operands.size() <= 3) return value;
  Expr other = scope.read(ins.operands[3], kPredicate);
  if (ins.take("and")) return expr(kPredicate, "({} & ({} != 0))", value, other);
  if (ins.take("or")) return expr(kPredicate, "({} | ({} != 0))", value, other);
  if (ins.take("xor")) return expr(kPredicate, "({} ^ ({} != 0))", value, other);
  scope.refuse("a third source");
}

void emit_setp(const FunctionScope& scope, const Instruction& ins, const Expr& c, Code& out) {
  const Operand& to = ins.operands[0];
  auto block = out.block("");
  out.add("u8 q = (u8){}", c);
  Expr first = combined(scope, ins, {"q", kPredicate});
  if (to.kind != OperandKind::pair) {
    scope.assign(out, to, first);
    return;
  }
  // Both are computed before either is written: a destination may be a source.
  out.add("u8 first = (u8){}, second = (u8){}", first,
          combined(scope, ins, {"(q ^ 1)", kPredicate}));
  scope.assign(out, to.elements[0], {"first", kPredicate});
  scope.assign(out, to.elements[1], {"second", kPredicate});
}

// Return half `number` of an operand with two of them.
Expr half_of(const FunctionScope& scope, const Operand& o, Type t, int number) {
  return expr(t, "as_{}((u16)({} >> {}))", c_type(t), scope.read_bits(o, kB32), 16 * number);
}

// setp of f16x2 or bf16x2: the predicates are those of the lower and of the upper halves.
void emit_setp_of_halves(const FunctionScope& scope, const Instruction& ins, Type t, Code& out) {
  const Operand& to = ins.operands.at(0);
  if (ins.op != "setp" || to.kind != OperandKind::pair) scope.refuse();
  auto block = out.block("");
  for (int i = 0; i < 2; ++i) {
    Expr c = compared(scope, ins, t, half_of(scope, ins.operands.at(1), t, i),
                      half_of(scope, ins.operands.at(2), t, i));
    out.add("u8 q{} = (u8){}", i, combined(scope, ins, c));
  }
  for (size_t i = 0; i < 2; ++i) scope.assign(out, to.elements[i], expr(kPredicate, "q{}", i));
}

}  // namespace

void emit_compare(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (ins.take("f16x2")) return emit_setp_of_halves(scope, ins, kF16, out);
  if (ins.take("bf16x2")) return emit_setp_of_halves(scope, ins, kBF16, out);
  Type compared_type = last_type(ins);
  Expr c = compared(scope, ins, compared_type, scope.read(ins.operands.at(1), compared_type),
                    scope.read(ins.operands.at(2), compared_type));
  if (ins.op == "setp") return emit_setp(scope, ins, c, out);
  Type t = first_type(ins);
  Expr value = combined(scope, ins, c);
  scope.assign(
      out, ins.operands[0],
      t.is_float() ? expr(t, "({} ? 1.0f : 0.0f)", value) : expr(t, "({} ? -1 : 0)", value));
}

void emit_select(FunctionScope& scope, const Instruction& ins, Code& out) {
  bool by_sign = ins.op == "slct";
  Type t = by_sign ? first_type(ins) : last_type(ins);
  if (t.is_float()) t.kind = 'b';
  Expr choice = scope.read(ins.operands.at(3), by_sign ? last_type(ins) : kPredicate);
  if (choice.type == kF32 && ins.take("ftz")) choice = expr(kF32, "ftz_f32({})", choice);
  Expr yes = scope.read_bits(ins.operands[1], t), no = scope.read_bits(ins.operands[2], t);
  scope.assign(out, ins.operands[0],
               by_sign ? expr(t, "({} >= 0 ? {} : {})", choice, yes, no)
                       : expr(t, "({} ? {} : {})", choice, yes, no));
}

void emit_test_property(FunctionScope& scope, const Instruction& ins, Code& out) {
  static const std::set<std::string> kTests = {"finite",     "infinite", "number",
                                               "notanumber", "normal",   "subnormal"};
  Type t = last_type(ins);
  auto* test = ins.take_one_of(kTests);
  if (!test) scope.refuse();
  scope.assign(out, ins.operands.at(0),
               expr(kPredicate, "test_{}({})", *test, scope.read(ins.operands.at(1), t)));
}

}  // namespace softgpu::emit
