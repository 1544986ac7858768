// add sub mul mad fma div rem abs neg min max, carries, square roots and the approximate functions.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Type;

static std::string rounding(const Instruction& ins) {
  for (const char* m : {"rz", "rm", "rp"})
    if (ins.has(m)) return m;
  return "rn";
}

static bool extended(const Instruction& ins) {
  return ins.has("cc") || ins.op == "addc" || ins.op == "subc" || ins.op == "madc";
}

namespace {
struct Names {
  const char* op;
  const char* function;
};
constexpr Names kFloatFunctions[] = {{"sqrt", "sqrt"}, {"rsqrt", "rsqrt_"}, {"rcp", "rcp_"},
                                     {"sin", "sin"},   {"cos", "cos"},      {"ex2", "exp2"},
                                     {"lg2", "log2"},  {"tanh", "tanh"}};
}  // namespace

struct Arithmetic {
  FunctionEmitter& e;
  const Instruction& ins;
  Type t;

  std::string arg(size_t i) const {
    if (i >= ins.operands.size()) e.refuse(ins, "too few operands");
    std::string v = e.read(ins.operands[i], t);
    return t.is_float() && ins.has("ftz") && t.bits == 32 ? "ftz(" + v + ")" : v;
  }
  std::string finish(std::string v) const {
    if (t.is_float() && ins.has("ftz") && t.bits == 32) v = "ftz(" + v + ")";
    if (t.is_float() && ins.has("sat")) v = "sat_" + c_type(t) + "(" + v + ")";
    if (t.is_float() && ins.has("relu")) v = "relu_" + c_type(t) + "(" + v + ")";
    return v;
  }
  std::string binary(const char* op) const {
    std::string a = arg(1), b = arg(2);
    if (t.is_float()) {
      std::string r = rounding(ins);
      if (r != "rn")
        return std::string(op[0] == '+'   ? "add"
                           : op[0] == '-' ? "sub"
                           : op[0] == '*' ? "mul"
                                          : "div") +
               "_" + r + "_" + c_type(t) + "(" + a + ", " + b + ")";
      return "(" + c_type(t) + ")(" + a + " " + op + " " + b + ")";
    }
    std::string u = storage(t);
    if (ins.has("sat") && t == Type{'s', 32})
      return std::string(op[0] == '+' ? "add" : "sub") + "_sat_s32(" + a + ", " + b + ")";
    return "(" + c_type(t) + ")((" + u + ")" + a + " " + op + " (" + u + ")" + b + ")";
  }
  // The chosen part of an integer product, as the type that is written.
  std::string product(const std::string& a, const std::string& b, Type& result) const {
    if (ins.has("wide")) {
      result = {t.kind, t.bits * 2};
      return "(" + c_type(result) + ")((" + c_type(result) + ")" + a + " * (" + c_type(result) +
             ")" + b + ")";
    }
    if (ins.has("hi")) return "mulhi_" + c_type(t) + "(" + a + ", " + b + ")";
    std::string u = t.bits == 16 ? "u32" : storage(t);
    return "(" + c_type(t) + ")((" + u + ")" + a + " * (" + u + ")" + b + ")";
  }
  std::string multiply() const {
    Type result = t;
    if (t.is_float()) return e.write(ins.operands[0], t, finish(binary("*")));
    std::string v = product(arg(1), arg(2), result);
    return e.write(ins.operands[0], result, v);
  }
  std::string multiply_add() const {
    if (t.is_float()) {
      std::string r = rounding(ins), f = "fma_" + (r == "rn" ? "" : r + "_") + c_type(t);
      return e.write(ins.operands[0], t,
                     finish(f + "(" + arg(1) + ", " + arg(2) + ", " + arg(3) + ")"));
    }
    Type result = t;
    std::string v = product(arg(1), arg(2), result);
    std::string c = e.read(ins.operands.at(3), result);
    if (ins.has("sat"))
      return e.write(ins.operands[0], result, "add_sat_s32(" + v + ", " + c + ")");
    return e.write(ins.operands[0], result,
                   "(" + storage(result) + ")" + v + " + (" + storage(result) + ")" + c);
  }
  // add.cc addc sub.cc subc mad.cc madc: the carry is a register of the function.
  std::string with_carry() const {
    std::string u = storage(t), wide = t.bits == 32 ? "u64" : "u128", cc = e.reg("%cc");
    bool reads = ins.op.back() == 'c', subtracts = ins.op[0] == 's', multiplies = ins.op[0] == 'm';
    Type result = t;
    std::string a = multiplies ? product(arg(1), arg(2), result) : arg(1);
    std::string b = arg(multiplies ? 3 : 2);
    std::string carry = reads ? cc : "0";
    std::string sum =
        subtracts
            ? "(" + wide + ")(" + u + ")" + a + " - (" + u + ")" + b + " - (" + wide + ")" + carry
            : "(" + wide + ")(" + u + ")" + a + " + (" + u + ")" + b + " + (" + wide + ")" + carry;
    std::string out = "{ " + wide + " sum = " + sum + ";\n" +
                      e.write(ins.operands[0], {'u', t.bits}, "(" + u + ")sum");
    if (ins.has("cc")) out += cc + " = (u32)((sum >> " + std::to_string(t.bits) + ") & 1);\n";
    return out + "}\n";
  }
  std::string division() const {
    if (t.is_float()) return finish(binary("/"));
    return "div_" + c_type(t) + "(" + arg(1) + ", " + arg(2) + ")";
  }
  std::string extreme() const {
    std::string f = ins.op + "_" + c_type(t) + (ins.has("NaN") ? "_nan" : "");
    std::string v = f + "(" + arg(1) + ", " + arg(2) + ")";
    if (ins.operands.size() > 3) v = f + "(" + v + ", " + arg(3) + ")";
    return finish(v);
  }
  std::string unary() const {
    if (ins.op == "neg")
      return t.is_float() ? finish("-" + arg(1))
                          : "(" + c_type(t) + ")(0 - (" + storage(t) + ")" + arg(1) + ")";
    if (t.is_float()) return finish("fabs_" + c_type(t) + "(" + arg(1) + ")");
    return "(" + c_type(t) + ")(" + arg(1) + " < 0 ? 0 - (" + storage(t) + ")" + arg(1) + " : (" +
           storage(t) + ")" + arg(1) + ")";
  }
};

// Two halves at once: f16x2, bf16x2, f32x2 by way of the scalar operation.
static bool packed(const Instruction& ins, std::string& kind) {
  for (auto& m : ins.mods)
    if (m == "f16x2" || m == "bf16x2" || m == "f32x2") {
      kind = m;
      return true;
    }
  return false;
}

static bool packed_operation(FunctionEmitter& e, const Instruction& ins, const std::string& kind,
                             std::string& out, auto read, auto write) {
  static const std::map<std::string, std::string> ops = {
      {"add", "+"},   {"sub", "-"},   {"mul", "*"},  {"fma", "fma"},
      {"neg", "neg"}, {"min", "min"}, {"max", "max"}};
  auto it = ops.find(ins.op);
  if (it == ops.end()) return false;
  (void)e;
  std::string element = kind == "f16x2" ? "f16" : kind == "bf16x2" ? "bf16" : "f32";
  int bits = kind == "f32x2" ? 64 : 32;
  Type whole{'b', bits};
  std::string call = "pk_" + ins.op + "_" + element + "(";
  for (size_t i = 1; i < ins.operands.size(); ++i)
    call += (i > 1 ? ", " : "") + read(ins.operands[i], whole);
  out += write(ins.operands[0], whole, call + ")");
  return true;
}

bool FunctionEmitter::arithmetic(const Instruction& ins, std::string& out) {
  static const std::set<std::string> ops = {
      "add", "sub", "mul",  "mad",  "fma",   "div",   "rem",   "abs",     "neg",
      "min", "max", "addc", "subc", "madc",  "sqrt",  "rsqrt", "rcp",     "sin",
      "cos", "ex2", "lg2",  "tanh", "mul24", "mad24", "sad",   "copysign"};
  if (!ops.count(ins.op)) return false;
  std::string kind;
  if (packed(ins, kind)) {
    auto r = [&](const ptx::Operand& o, Type t) {
      return read(o, t);
    };
    auto w = [&](const ptx::Operand& o, Type t, const std::string& v) {
      return write(o, t, v);
    };
    if (!packed_operation(*this, ins, kind, out, r, w)) refuse(ins);
    return true;
  }
  Arithmetic a{*this, ins, last_type(ins)};
  const ptx::Operand& d = ins.operands.at(0);
  for (auto& name : kFloatFunctions)
    if (ins.op == name.op) {
      out += write(
          d, a.t,
          a.finish("fn_" + std::string(name.function) + "_" + c_type(a.t) + "(" + a.arg(1) + ")"));
      return true;
    }
  if (extended(ins))
    out += a.with_carry();
  else if (ins.op == "add")
    out += write(d, a.t, a.finish(a.binary("+")));
  else if (ins.op == "sub")
    out += write(d, a.t, a.finish(a.binary("-")));
  else if (ins.op == "mul")
    out += a.multiply();
  else if (ins.op == "mad" || ins.op == "fma")
    out += a.multiply_add();
  else if (ins.op == "div")
    out += write(d, a.t, a.division());
  else if (ins.op == "rem")
    out += write(d, a.t, "rem_" + c_type(a.t) + "(" + a.arg(1) + ", " + a.arg(2) + ")");
  else if (ins.op == "min" || ins.op == "max")
    out += write(d, a.t, a.extreme());
  else if (ins.op == "abs" || ins.op == "neg")
    out += write(d, a.t, a.unary());
  else if (ins.op == "copysign")
    out += write(d, a.t, "copysign_" + c_type(a.t) + "(" + a.arg(2) + ", " + a.arg(1) + ")");
  else if (ins.op == "sad")
    out += write(d, a.t,
                 "(" + a.arg(3) + " + (" + a.arg(1) + " < " + a.arg(2) + " ? " + a.arg(2) + " - " +
                     a.arg(1) + " : " + a.arg(1) + " - " + a.arg(2) + "))");
  else if (!ins.has("lo"))
    refuse(ins);
  else
    out += write(d, a.t,
                 std::string(ins.op) + "_" + c_type(a.t) + "(" + a.arg(1) + ", " + a.arg(2) +
                     (ins.op == "mad24" ? ", " + a.arg(3) : "") + ")");
  return true;
}

}  // namespace softgpu::emit
