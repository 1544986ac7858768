// setp set selp slct testp
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

// The comparison as a C expression of 0 or 1. Unordered float forms are true for NaN.
static std::string comparison(const std::string& op, const std::string& a, const std::string& b) {
  static const std::map<std::string, std::string> plain = {
      {"eq", "=="}, {"lt", "<"},  {"le", "<="}, {"gt", ">"}, {"ge", ">="},
      {"lo", "<"},  {"ls", "<="}, {"hi", ">"},  {"hs", ">="}};
  static const std::map<std::string, std::string> unordered = {
      {"equ", "=="}, {"ltu", "<"}, {"leu", "<="}, {"gtu", ">"}, {"geu", ">="}};
  if (auto it = plain.find(op); it != plain.end())
    return "(" + a + " " + it->second + " " + b + ")";
  std::string nan = "(" + a + " != " + a + " || " + b + " != " + b + ")";
  if (auto it = unordered.find(op); it != unordered.end())
    return "(" + a + " " + it->second + " " + b + " || " + nan + ")";
  if (op == "neu") return "(" + a + " != " + b + ")";
  if (op == "nan") return nan;
  if (op == "num") return "(!" + nan + ")";
  return "";
}

static std::string compared(const Instruction& ins, Type t, const std::string& a,
                            const std::string& b) {
  for (auto& m : ins.mods) {
    if (m == "ne")
      return t.is_float() ? "(" + a + " < " + b + " || " + a + " > " + b + ")"
                          : "(" + a + " != " + b + ")";
    std::string c = comparison(m, a, b);
    if (!c.empty()) return c;
  }
  return "";
}

static std::string combined(const Instruction& ins, const std::string& value,
                            const std::string& other) {
  if (ins.has("and")) return "(" + value + " & (" + other + " != 0))";
  if (ins.has("or")) return "(" + value + " | (" + other + " != 0))";
  if (ins.has("xor")) return "(" + value + " ^ (" + other + " != 0))";
  return value;
}

static Type first_type(const Instruction& ins) {
  for (auto& m : ins.mods) {
    bool known;
    Type t = type_of(m, known);
    if (known) return t;
  }
  return last_type(ins);
}

bool FunctionEmitter::compare(const Instruction& ins, std::string& out) {
  const Type predicate{'p', 8};
  if (ins.op == "selp") {
    Type t = last_type(ins);
    if (t.is_float()) t.kind = 'b';
    std::string choice = read(ins.operands.at(3), predicate);
    out += write(ins.operands[0], t,
                 "(" + choice + " ? " + read_bits(ins.operands[1], t) + " : " +
                     read_bits(ins.operands[2], t) + ")");
    return true;
  }
  if (ins.op == "slct") {
    Type t = first_type(ins), c = last_type(ins);
    if (t.is_float()) t.kind = 'b';
    out += write(ins.operands.at(0), t,
                 "(" + read(ins.operands.at(3), c) + " >= 0 ? " + read_bits(ins.operands[1], t) +
                     " : " + read_bits(ins.operands[2], t) + ")");
    return true;
  }
  if (ins.op == "testp") {
    Type t = last_type(ins);
    for (auto& m : ins.mods)
      for (const char* test : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"})
        if (m == test) {
          out += write(ins.operands.at(0), predicate,
                       "test_" + m + "(" + read(ins.operands.at(1), t) + ")");
          return true;
        }
    refuse(ins);
  }
  if (ins.op != "setp" && ins.op != "set") return false;
  Type t = last_type(ins);
  for (auto& m : ins.mods)
    if (m == "f16x2" || m == "bf16x2") refuse(ins);
  std::string a = read(ins.operands.at(1), t), b = read(ins.operands.at(2), t);
  if (ins.has("ftz") && t.bits == 32 && t.is_float()) {
    a = "ftz(" + a + ")";
    b = "ftz(" + b + ")";
  }
  std::string c = compared(ins, t, a, b);
  if (c.empty()) refuse(ins, "unknown comparison");
  std::string third = ins.operands.size() > 3 ? read(ins.operands[3], predicate) : "";
  if (ins.op == "set") {
    Type d = first_type(ins);
    std::string v = third.empty() ? c : combined(ins, c, third);
    out += d.is_float() ? write(ins.operands[0], d, "(" + v + " ? 1.0f : 0.0f)")
                        : write(ins.operands[0], d, "(" + v + " ? -1 : 0)");
    return true;
  }
  out += "{ u8 q = (u8)" + c + ";\n";
  const Operand& d = ins.operands[0];
  bool pair = d.kind == OperandKind::pair;
  std::string first = third.empty() ? "q" : combined(ins, "q", third),
              second = third.empty() ? "(q ^ 1)" : combined(ins, "(q ^ 1)", third);
  if (pair)
    out += "u8 first = (u8)" + first + ", second = (u8)" + second + ";\n" +
           write(d.elements[0], predicate, "first") + write(d.elements[1], predicate, "second");
  else
    out += write(d, predicate, first);
  out += "}\n";
  return true;
}

}  // namespace softgpu::emit
