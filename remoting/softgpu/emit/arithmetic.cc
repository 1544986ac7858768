// add sub mul mad fma div rem abs neg min max, carries, square roots and the approximate functions.
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::Type;

namespace {

struct Operator {
  const char* name;
  const char* symbol;
};
constexpr Operator kAdd{"add", "+"}, kSubtract{"sub", "-"}, kMultiply{"mul", "*"},
    kDivide{"div", "/"};

// Operations on one float: opcode to the fn_ function of the runtime.
const std::map<std::string, std::string> kFloatFunctions = {
    {"sqrt", "sqrt"}, {"rsqrt", "rsqrt_"}, {"rcp", "rcp_"}, {"sin", "sin"},
    {"cos", "cos"},   {"ex2", "exp2"},     {"lg2", "log2"}, {"tanh", "tanh"}};

std::string rounding(const Instruction& ins) {
  for (const char* m : {"rz", "rm", "rp"})
    if (ins.has(m)) return m;
  return "rn";
}

bool uses_carry(const Instruction& ins) {
  return ins.has("cc") || ins.op == "addc" || ins.op == "subc" || ins.op == "madc";
}

// One scalar instruction; its results are expressions of the destination's type.
class Arithmetic {
 public:
  Arithmetic(const FunctionScope& scope, const Instruction& ins)
      : scope_(scope), ins_(ins), type_(last_type(ins)), c_(c_type(type_)) {}

  Expr result() const;
  void with_carry(Code& out) const;

 private:
  bool flushes() const { return type_ == kF32 && ins_.has("ftz"); }
  Expr arg(size_t i) const;
  Expr finish(Expr value) const;
  Expr binary(Operator op) const;
  Expr product(const Expr& a, const Expr& b) const;
  Expr multiply() const;
  Expr multiply_add() const;
  Expr divide() const;
  Expr extreme() const;
  Expr negate() const;
  Expr absolute() const;
  Expr absolute_difference() const;
  Expr in_24_bits() const;

  const FunctionScope& scope_;
  const Instruction& ins_;
  const Type type_;
  const std::string c_;  // C type of type_
};

Expr Arithmetic::arg(size_t i) const {
  if (i >= ins_.operands.size()) scope_.reject("too few operands");
  Expr value = scope_.read(ins_.operands[i], type_);
  return flushes() ? expr(type_, "ftz({})", value) : value;
}

Expr Arithmetic::finish(Expr value) const {
  if (!type_.is_float()) return value;
  if (flushes()) value = expr(type_, "ftz({})", value);
  if (ins_.has("sat")) value = expr(type_, "sat_{}({})", c_, value);
  if (ins_.has("relu")) value = expr(type_, "relu_{}({})", c_, value);
  return value;
}

Expr Arithmetic::binary(Operator op) const {
  Expr a = arg(1), b = arg(2);
  if (type_.is_float()) {
    std::string mode = rounding(ins_);
    if (mode != "rn") return expr(type_, "{}_{}_{}({}, {})", op.name, mode, c_, a, b);
    return expr(type_, "({})({} {} {})", c_, a, op.symbol, b);
  }
  if (ins_.has("sat") && type_ == kS32) return expr(type_, "{}_sat_s32({}, {})", op.name, a, b);
  std::string u = storage(type_);
  return expr(type_, "({})(({}){} {} ({}){})", c_, u, a, op.symbol, u, b);
}

// Return the part of an integer product that the instruction names.
Expr Arithmetic::product(const Expr& a, const Expr& b) const {
  if (ins_.has("wide")) {
    Type wide{type_.kind, type_.bits * 2};
    std::string c = c_type(wide);
    return expr(wide, "({})(({}){} * ({}){})", c, c, a, c, b);
  }
  if (ins_.has("hi")) return expr(type_, "mulhi_{}({}, {})", c_, a, b);
  std::string u = type_.bits == 16 ? "u32" : storage(type_);
  return expr(type_, "({})(({}){} * ({}){})", c_, u, a, u, b);
}

Expr Arithmetic::multiply() const {
  return type_.is_float() ? finish(binary(kMultiply)) : product(arg(1), arg(2));
}

Expr Arithmetic::multiply_add() const {
  if (type_.is_float()) {
    std::string mode = rounding(ins_);
    std::string function = "fma_" + (mode == "rn" ? "" : mode + "_") + c_;
    return finish(expr(type_, "{}({}, {}, {})", function, arg(1), arg(2), arg(3)));
  }
  Expr value = product(arg(1), arg(2));
  Expr addend = scope_.read(ins_.operands.at(3), value.type);
  if (ins_.has("sat")) return expr(value.type, "add_sat_s32({}, {})", value, addend);
  std::string u = storage(value.type);
  return expr(value.type, "({}){} + ({}){}", u, value, u, addend);
}

// add.cc addc sub.cc subc mad.cc madc: the carry is a register of the function.
void Arithmetic::with_carry(Code& out) const {
  std::string u = storage(type_), wide = type_.bits == 32 ? "u64" : "u128";
  Expr carry_flag = scope_.reg("%cc");
  bool multiplies = ins_.op[0] == 'm';
  Expr a = multiplies ? product(arg(1), arg(2)) : arg(1);
  Expr b = arg(multiplies ? 3 : 2);
  std::string carry = ins_.op.back() == 'c' ? carry_flag.text : "0";
  const char* sign = ins_.op[0] == 's' ? "-" : "+";
  auto block = out.block("");
  out.add("{} sum = ({})({}){} {} ({}){} {} ({}){}", wide, wide, u, a, sign, u, b, sign, wide,
          carry);
  scope_.assign(out, ins_.operands[0], expr({'u', type_.bits}, "({})sum", u));
  if (ins_.has("cc")) out.add("{} = (u32)((sum >> {}) & 1)", carry_flag, type_.bits);
}

Expr Arithmetic::divide() const {
  if (type_.is_float()) return finish(binary(kDivide));
  return expr(type_, "div_{}({}, {})", c_, arg(1), arg(2));
}

Expr Arithmetic::extreme() const {
  std::string function = ins_.op + "_" + c_ + (ins_.has("NaN") ? "_nan" : "");
  Expr value = expr(type_, "{}({}, {})", function, arg(1), arg(2));
  if (ins_.operands.size() > 3) value = expr(type_, "{}({}, {})", function, value, arg(3));
  return finish(value);
}

Expr Arithmetic::negate() const {
  if (type_.is_float()) return finish(expr(type_, "-{}", arg(1)));
  return expr(type_, "({})(0 - ({}){})", c_, storage(type_), arg(1));
}

Expr Arithmetic::absolute() const {
  if (type_.is_float()) return finish(expr(type_, "fabs_{}({})", c_, arg(1)));
  std::string u = storage(type_);
  Expr a = arg(1);
  return expr(type_, "({})({} < 0 ? 0 - ({}){} : ({}){})", c_, a, u, a, u, a);
}

Expr Arithmetic::absolute_difference() const {
  Expr a = arg(1), b = arg(2);
  return expr(type_, "({} + ({} < {} ? {} - {} : {} - {}))", arg(3), a, b, b, a, a, b);
}

Expr Arithmetic::in_24_bits() const {
  if (!ins_.has("lo")) scope_.refuse();
  if (ins_.op == "mad24") return expr(type_, "mad24_{}({}, {}, {})", c_, arg(1), arg(2), arg(3));
  return expr(type_, "mul24_{}({}, {})", c_, arg(1), arg(2));
}

Expr Arithmetic::result() const {
  const std::string& op = ins_.op;
  if (auto it = kFloatFunctions.find(op); it != kFloatFunctions.end())
    return finish(expr(type_, "fn_{}_{}({})", it->second, c_, arg(1)));
  if (op == "add") return finish(binary(kAdd));
  if (op == "sub") return finish(binary(kSubtract));
  if (op == "mul") return multiply();
  if (op == "mad" || op == "fma") return multiply_add();
  if (op == "div") return divide();
  if (op == "rem") return expr(type_, "rem_{}({}, {})", c_, arg(1), arg(2));
  if (op == "min" || op == "max") return extreme();
  if (op == "abs") return absolute();
  if (op == "neg") return negate();
  if (op == "copysign") return expr(type_, "copysign_{}({}, {})", c_, arg(2), arg(1));
  if (op == "sad") return absolute_difference();
  return in_24_bits();
}

// f16x2, bf16x2 and f32x2: both elements at once, by functions of the runtime.
void emit_packed(const FunctionScope& scope, const Instruction& ins, const std::string& kind,
                 Code& out) {
  static const std::set<std::string> kSupported = {"add", "sub", "mul", "fma", "neg", "min", "max"};
  if (!kSupported.count(ins.op)) scope.refuse();
  Type whole{'b', kind == "f32x2" ? 64 : 32};
  std::string arguments;
  for (size_t i = 1; i < ins.operands.size(); ++i)
    arguments += (i > 1 ? ", " : "") + scope.read(ins.operands[i], whole).text;
  std::string element = kind.substr(0, kind.size() - 2);
  scope.assign(out, ins.operands[0], expr(whole, "pk_{}_{}({})", ins.op, element, arguments));
}

}  // namespace

void emit_arithmetic(FunctionScope& scope, const Instruction& ins, Code& out) {
  for (auto& m : ins.mods)
    if (m == "f16x2" || m == "bf16x2" || m == "f32x2") return emit_packed(scope, ins, m, out);
  Arithmetic arithmetic(scope, ins);
  const Operand& to = ins.operands.at(0);
  if (uses_carry(ins) && !kFloatFunctions.count(ins.op))
    arithmetic.with_carry(out);
  else
    scope.assign(out, to, arithmetic.result());
}

}  // namespace softgpu::emit
