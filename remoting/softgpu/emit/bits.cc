// Logic, shifts and bit fields.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Type;

static bool logic(const Instruction& ins, Type t, std::string& v, auto in) {
  static const std::map<std::string, std::string> ops = {{"and", "&"}, {"or", "|"}, {"xor", "^"}};
  if (auto it = ops.find(ins.op); it != ops.end()) {
    v = in(1, t) + " " + it->second + " " + in(2, t);
    return true;
  }
  if (ins.op == "not") {
    v = t.kind == 'p' ? "!" + in(1, t) : "~" + in(1, t);
    return true;
  }
  if (ins.op == "cnot") {
    v = "(" + in(1, t) + " == 0)";
    return true;
  }
  return false;
}

// Shift counts above the width clamp, as PTX has it.
static bool shift(const Instruction& ins, Type t, std::string& v, auto in) {
  const Type count{'u', 32};
  std::string bits = std::to_string(t.bits);
  if (ins.op == "shl")
    v = "(" + in(2, count) + " >= " + bits + " ? 0 : (" + storage(t) + ")" + in(1, t) + " << (" +
        in(2, count) + " & " + std::to_string(t.bits - 1) + "))";
  else if (ins.op == "shr")
    v = "(" + in(1, t) + " >> (" + in(2, count) + " >= " + bits + " ? " +
        std::to_string(t.bits - 1) + " : " + in(2, count) + ")" +
        (t.is_signed() ? ")" : " & -(" + storage(t) + ")(" + in(2, count) + " < " + bits + "))");
  else if (ins.op == "shf")
    v = std::string("shf_") + (ins.has("l") ? "l" : "r") + (ins.has("wrap") ? "_wrap" : "_clamp") +
        "(" + in(1, count) + ", " + in(2, count) + ", " + in(3, count) + ")";
  else
    return false;
  return true;
}

static bool field(const Instruction& ins, Type& t, std::string& v, auto in) {
  const Type u32{'u', 32};
  if (ins.op == "bfe")
    v = "bfe_" + c_type(t) + "(" + in(1, t) + ", " + in(2, u32) + ", " + in(3, u32) + ")";
  else if (ins.op == "bfi")
    v = "bfi_" + storage(t) + "(" + in(1, t) + ", " + in(2, t) + ", " + in(3, u32) + ", " +
        in(4, u32) + ")";
  else if (ins.op == "bfind") {
    v = "bfind_" + c_type(t) + "(" + in(1, t) + ", " + (ins.has("shiftamt") ? "1" : "0") + ")";
    t = u32;
  } else if (ins.op == "popc") {
    v = "(u32)__builtin_popcountll((u64)" + in(1, t) + ")";
    t = u32;
  } else if (ins.op == "clz") {
    v = "clz_" + storage(t) + "(" + in(1, t) + ")";
    t = u32;
  } else if (ins.op == "brev")
    v = "brev_" + storage(t) + "(" + in(1, t) + ")";
  else if (ins.op == "fns") {
    v = "fns(" + in(1, u32) + ", " + in(2, u32) + ", " + in(3, {'s', 32}) + ")";
    t = u32;
  } else if (ins.op == "bmsk")
    v = std::string(ins.has("wrap") ? "bmsk_wrap" : "bmsk_clamp") + "(" + in(1, u32) + ", " +
        in(2, u32) + ")";
  else if (ins.op == "szext")
    v = std::string("szext_") + c_type(t) + (ins.has("wrap") ? "_wrap" : "_clamp") + "(" +
        in(1, t) + ", " + in(2, u32) + ")";
  else
    return false;
  return true;
}

bool FunctionEmitter::bits(const Instruction& ins, std::string& out) {
  if (ins.op == "vabsdiff2" || ins.op == "vabsdiff4") {
    const Type u32{'u', 32};
    if (ins.mods.size() < 3 || ins.mods.size() > 4 ||
        (ins.mods.size() == 4 && ins.mods[3] != "add"))
      refuse(ins);
    std::string list;
    for (size_t i = 1; i < 4; ++i) list += read(ins.operands[i], u32) + ", ";
    list += std::string(ins.op == "vabsdiff2" ? "16, " : "8, ") +
            (ins.mods[1] == "s32" ? "1, " : "0, ") + (ins.mods[2] == "s32" ? "1, " : "0, ") +
            (ins.mods.size() == 4 ? "1" : "0");
    out += write(ins.operands[0], u32, "absdiff(" + list + ")");
    return true;
  }
  const Type u32{'u', 32};
  auto in = [&](size_t i, Type t) -> std::string {
    if (i >= ins.operands.size()) refuse(ins, "too few operands");
    return read(ins.operands[i], t);
  };
  std::string v;
  if (ins.op == "prmt") {
    std::string mode = "0";
    static const std::map<std::string, std::string> modes = {
        {"f4e", "1"}, {"b4e", "2"}, {"rc8", "3"}, {"ecl", "4"}, {"ecr", "5"}, {"rc16", "6"}};
    for (auto& m : ins.mods)
      if (auto it = modes.find(m); it != modes.end()) mode = it->second;
    out += write(ins.operands.at(0), u32,
                 "prmt(" + in(1, u32) + ", " + in(2, u32) + ", " + in(3, u32) + ", " + mode + ")");
    return true;
  }
  if (ins.op == "lop3") {
    std::string value =
        "lop3(" + in(1, u32) + ", " + in(2, u32) + ", " + in(3, u32) + ", " + in(4, u32) + ")";
    const ptx::Operand& d = ins.operands.at(0);
    if (d.kind != ptx::OperandKind::pair) {
      out += write(d, u32, value);
      return true;
    }
    std::string joined = std::string("v != 0 ") + (ins.has("and") ? "&& " : "|| ") +
                         in(5, {'p', 8});  // d|p: whether the result is not zero, joined with q
    out += "{ u32 v = " + value + ";\n" + write(d.elements[0], u32, "v") +
           write(d.elements[1], {'p', 8}, joined) + "}\n";
    return true;
  }
  if (ins.op == "dp4a" || ins.op == "dp2a") {
    std::string call = ins.op;
    for (auto& m : ins.mods) call += "_" + m;
    bool is_signed = call.find("s32") != std::string::npos;
    if (ins.op == "dp2a")
      call = std::string("dp2a_") + (ins.has("lo") ? "lo" : "hi") +
             call.substr(std::string("dp2a_lo").size());
    out += write(ins.operands.at(0), {is_signed ? 's' : 'u', 32},
                 call + "(" + in(1, u32) + ", " + in(2, u32) + ", " + in(3, u32) + ")");
    return true;
  }
  static const std::set<std::string> ops = {"and", "or",   "xor", "not",  "cnot",  "shl",
                                            "shr", "shf",  "bfe", "bfi",  "bfind", "popc",
                                            "clz", "brev", "fns", "bmsk", "szext"};
  if (!ops.count(ins.op)) return false;
  Type t = last_type(ins);
  if (!logic(ins, t, v, in) && !shift(ins, t, v, in) && !field(ins, t, v, in)) refuse(ins);
  out += write(ins.operands.at(0), t, v);
  return true;
}

}  // namespace softgpu::emit
