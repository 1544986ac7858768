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
  for (const char* m : {"rn", "rz", "rm", "rp"})
    if (ins.take(m)) return m;
  return "rn";
}

bool uses_carry(const Instruction& ins) {
  bool can = ins.op == "add" || ins.op == "sub" || ins.op == "mad";
  return (can && ins.has("cc")) || ins.op == "addc" || ins.op == "subc" || ins.op == "madc";
}

struct Elements {
  Type type;
  std::optional<Type> narrow;  // of the operands before the addend, with mixed precision
  int half;                    // of two elements in one register; -1: the whole register
};

// One instruction on scalars; its results are expressions of the destination's type.
class Arithmetic {
 public:
  Arithmetic(const FunctionScope& scope, const Instruction& ins, Elements elements)
      : scope_(scope),
        ins_(ins),
        type_(elements.type),
        narrow_(elements.narrow),
        half_(elements.half),
        c_(c_type(type_)) {}

  Expr result() const;
  void with_carry(Code& out) const;

 private:
  bool flushes() const;
  Expr flushed(const Expr& value) const;
  bool saturates() const;
  Expr arg(size_t i) const;
  Expr finish(Expr value) const;
  Expr binary(Operator op) const;
  Expr product(const Expr& a, const Expr& b) const;
  Expr multiply() const;
  Expr multiply_add() const;
  Expr divide() const;
  Expr extreme() const;
  Expr nearest_function(const std::string& name) const;
  Expr negate() const;
  Expr absolute() const;
  Expr absolute_difference() const;
  Expr in_24_bits() const;

  const FunctionScope& scope_;
  const Instruction& ins_;
  const Type type_;
  const std::optional<Type> narrow_;
  const int half_;
  const std::string c_;  // C type of type_
};

// Doubles are flushed by the approximations only, bf16 by ex2 only (PTX ISA).
bool Arithmetic::flushes() const {
  bool possible = type_ == kF32 || (type_ == kF16 && ins_.op != "ex2");
  if (ins_.op == "tanh") return false;
  if (type_ == kF64) possible = ins_.op == "rcp" || ins_.op == "rsqrt";
  if (type_ == kBF16) possible = ins_.op == "ex2";
  return possible && !narrow_ && ins_.take("ftz");
}

bool Arithmetic::saturates() const {
  static const std::set<std::string> kSaturating = {"add", "sub", "mul", "mad", "fma"};
  bool single = type_ == kF32 && half_ < 0;
  return (single || type_ == kF16) && kSaturating.count(ins_.op);
}

Expr Arithmetic::flushed(const Expr& value) const {
  return flushes() ? expr(type_, "ftz_{}({})", c_, value) : value;
}

Expr Arithmetic::arg(size_t i) const {
  if (i >= ins_.operands.size()) scope_.reject("too few operands");
  bool addend = i + 1 == ins_.operands.size();
  if (narrow_ && !addend) return expr(type_, "(f32){}", scope_.read(ins_.operands[i], *narrow_));
  if (half_ < 0) return flushed(scope_.read(ins_.operands[i], type_));
  const char* as = type_.is_float() ? "as_" : "(";
  const char* end = type_.is_float() ? "" : ")";
  return flushed(
      expr(type_, "{}{}{}(({})(v{} >> {}))", as, c_, end, storage(type_), i, half_ * type_.bits));
}

Expr Arithmetic::finish(Expr value) const {
  if (!type_.is_float()) return value;
  value = flushed(value);
  if (saturates() && ins_.take("sat")) value = expr(type_, "sat_{}({})", c_, value);
  if (type_.bits == 16 && ins_.op == "fma" && ins_.take("relu"))
    value = expr(type_, "relu_{}({})", c_, value);
  return value;
}

Expr Arithmetic::binary(Operator op) const {
  Expr a = arg(1), b = arg(2);
  if (type_.is_float()) {
    std::string mode = rounding(ins_);
    if (mode != "rn" && type_.bits < 32) scope_.refuse("modifier ." + mode);
    if (mode != "rn") return expr(type_, "{}_{}_{}({}, {})", op.name, mode, c_, a, b);
    return expr(type_, "({})({} {} {})", c_, a, op.symbol, b);
  }
  if (type_ == kS32 && ins_.take("sat")) return expr(type_, "{}_sat_s32({}, {})", op.name, a, b);
  std::string u = storage(type_);
  return expr(type_, "({})(({}){} {} ({}){})", c_, u, a, op.symbol, u, b);
}

// Return the part of an integer product that the instruction names.
Expr Arithmetic::product(const Expr& a, const Expr& b) const {
  if (ins_.take("wide")) {
    Type wide{type_.kind, type_.bits * 2};
    std::string c = c_type(wide);
    return expr(wide, "({})(({}){} * ({}){})", c, c, a, c, b);
  }
  if (ins_.take("hi")) return expr(type_, "mulhi_{}({}, {})", c_, a, b);
  if (!ins_.take("lo")) scope_.reject("it needs .lo, .hi or .wide");
  std::string u = type_.bits == 16 ? "u32" : storage(type_);
  return expr(type_, "({})(({}){} * ({}){})", c_, u, a, u, b);
}

Expr Arithmetic::multiply() const {
  return type_.is_float() ? finish(binary(kMultiply)) : product(arg(1), arg(2));
}

Expr Arithmetic::multiply_add() const {
  if (type_.is_float()) {
    std::string mode = rounding(ins_);
    if (mode != "rn" && type_.bits < 32) scope_.refuse("modifier ." + mode);
    std::string function = "fma_" + (mode == "rn" ? "" : mode + "_") + c_;
    return finish(expr(type_, "{}({}, {}, {})", function, arg(1), arg(2), arg(3)));
  }
  Expr value = product(arg(1), arg(2));
  Expr addend = scope_.read(ins_.operands.at(3), value.type);
  if (type_ == kS32 && ins_.has("hi") && ins_.take("sat"))
    return expr(value.type, "add_sat_s32({}, {})", value, addend);
  std::string u = storage(value.type);
  return expr(value.type, "({}){} + ({}){}", u, value, u, addend);
}

// add.cc addc sub.cc subc mad.cc madc: the carry is a register of the function.
void Arithmetic::with_carry(Code& out) const {
  if (type_.is_float() || type_.bits < 32 || ins_.has("wide")) scope_.refuse("modifier .cc");
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
  if (ins_.take("cc")) out.add("{} = (u32)((sum >> {}) & 1)", carry_flag, type_.bits);
}

Expr Arithmetic::divide() const {
  // The quotient is rounded correctly, which the approximations permit.
  if (type_ == kF32 && (ins_.take("approx") || ins_.take("full"))) {
    Expr a = arg(1), b = arg(2);
    return finish(expr(type_, "({})({} / {})", c_, a, b));
  }
  if (type_.is_float()) return finish(binary(kDivide));
  return expr(type_, "div_{}({}, {})", c_, arg(1), arg(2));
}

Expr Arithmetic::extreme() const {
  bool is_float = type_.is_float();
  std::string function =
      ins_.op + "_" + c_ + (is_float && type_.bits < 64 && ins_.take("NaN") ? "_nan" : "");
  bool absolute = is_float && type_.bits < 64 && ins_.take("abs");
  auto input = [&](size_t i) {
    return absolute ? expr(type_, "fabs_{}({})", c_, arg(i)) : arg(i);
  };
  Expr value = expr(type_, "{}({}, {})", function, input(1), input(2));
  if (ins_.operands.size() > 3) {
    if (type_ != kF32) scope_.refuse("three inputs");
    return finish(expr(type_, "{}({}, {})", function, value, input(3)));
  }
  if (absolute && !ins_.take("xorsign")) scope_.reject("it needs .xorsign");
  if (absolute) value = expr(type_, "xorsign_{}({}, {}, {})", c_, value, arg(1), arg(2));
  if (!is_float && type_.is_signed() && type_.bits < 64 && ins_.take("relu"))
    return expr(type_, "({})({} > 0 ? {} : 0)", c_, value, value);
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
  if (!ins_.take("lo")) scope_.refuse();
  if (ins_.op == "mad24") return expr(type_, "mad24_{}({}, {}, {})", c_, arg(1), arg(2), arg(3));
  return expr(type_, "mul24_{}({}, {})", c_, arg(1), arg(2));
}

// The result is rounded to the nearest, which the approximations permit.
Expr Arithmetic::nearest_function(const std::string& name) const {
  if (!type_.is_float()) scope_.refuse();
  bool rounded = ins_.op == "sqrt" || ins_.op == "rcp";
  if (!(rounded && ins_.take("rn")) && !ins_.take("approx"))
    scope_.refuse("it is rounded to the nearest only");
  return finish(expr(type_, "fn_{}_{}({})", name, c_, arg(1)));
}

Expr Arithmetic::result() const {
  const std::string& op = ins_.op;
  if (auto it = kFloatFunctions.find(op); it != kFloatFunctions.end())
    return nearest_function(it->second);
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

// Two elements in one register: each half on its own.
void emit_packed(const FunctionScope& scope, const Instruction& ins, Type element, Code& out) {
  static const std::set<std::string> kFloats = {"add", "sub", "mul", "fma", "neg",
                                                "abs", "min", "max", "ex2", "tanh"};
  static const std::set<std::string> kIntegers = {"add", "min", "max"};
  if (!(element.is_float() ? kFloats : kIntegers).count(ins.op)) scope.refuse();
  Type whole{'b', 2 * element.bits};
  std::string w = storage(whole), u = storage(element);
  auto block = out.block("");
  for (size_t i = 1; i < ins.operands.size(); ++i)
    out.add("{} v{} = {}", w, i, scope.read_bits(ins.operands[i], whole));
  for (int half = 0; half < 2; ++half) {
    Expr value = Arithmetic(scope, ins, {element, std::nullopt, half}).result();
    if (element.is_float()) value = expr(element, "bits_{}({})", c_type(element), value);
    out.add("{} half{} = ({}){}", u, half, u, value);
  }
  scope.assign(out, ins.operands.at(0), expr(whole, "({})half1 << {} | half0", w, element.bits));
}

// Return the type of the elements if the instruction works on two of them.
std::optional<Type> packed_element(const Instruction& ins) {
  for (size_t i = 0; i < ins.mods.size(); ++i)
    if (const std::string& m = ins.mods[i]; m.size() > 2 && m.ends_with("x2"))
      if (auto type = type_of(m.substr(0, m.size() - 2))) {
        ins.take_at(i);
        return type;
      }
  return std::nullopt;
}

// add, sub and fma of mixed precision: the type of all operands but the addend.
std::optional<Type> narrow_type(const Instruction& ins) {
  if (ins.op != "add" && ins.op != "sub" && ins.op != "fma") return std::nullopt;
  size_t n = ins.mods.size();
  if (n < 2 || type_of(ins.mods[n - 2]) != kF32) return std::nullopt;
  auto type = type_of(ins.mods[n - 1]);
  if (type != kF16 && type != kBF16) return std::nullopt;
  ins.take_at(n - 1);
  return type;
}

}  // namespace

void emit_arithmetic(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (auto element = packed_element(ins)) return emit_packed(scope, ins, *element, out);
  auto narrow = narrow_type(ins);
  Arithmetic arithmetic(scope, ins, {narrow ? first_type(ins) : last_type(ins), narrow, -1});
  const Operand& to = ins.operands.at(0);
  if (uses_carry(ins))
    arithmetic.with_carry(out);
  else
    scope.assign(out, to, arithmetic.result());
}

}  // namespace softgpu::emit
