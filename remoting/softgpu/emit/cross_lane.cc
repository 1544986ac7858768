// shfl vote match redux bar.warp: one instruction over the lanes of a member mask. `g` is the group
// in the generated code.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

static const Type kU32{'u', 32};
static const Type kPredicate{'p', 8};
static const char* kEach = "for (u32 l = 0; l < 32; ++l) if (g >> l & 1) {\n";

// The member mask of a sync instruction as an expression for lane l.
std::string FunctionEmitter::members(const Instruction& ins) const {
  if (!ins.has("sync") || ins.has("aligned")) return "~0u";
  return read(ins.operands.back(), kU32);
}

void FunctionEmitter::shuffle(const Instruction& ins, std::string& out) const {
  const Operand& d = ins.operands.at(0);
  const Operand& value = d.kind == OperandKind::pair ? d.elements[0] : d;
  std::string mode = ins.has("up") ? "0" : ins.has("down") ? "1" : ins.has("bfly") ? "2" : "3";
  out += "u32 source[32]; (void)source;\n" + std::string(kEach) +
         "source[l] = " + read(ins.operands.at(1), kU32) + ";}\n";
  out += std::string(kEach) + "u32 from; u8 ok = shuffle_source(" + mode + ", l, " +
         read(ins.operands.at(2), kU32) + ", " + read(ins.operands.at(3), kU32) + ", &from);\n";
  out += "u32 got = g >> from & 1 ? source[from] : source[l];\n" + write(value, kU32, "got");
  if (d.kind == OperandKind::pair)
    out += write(d.elements[1], kPredicate, "ok");
  else
    out += "(void)ok;\n";
  out += "}\n";
}

void FunctionEmitter::vote(const Instruction& ins, std::string& out) const {
  out += "u32 votes = 0;\n" + std::string(kEach) + "votes |= (u32)(" +
         read(ins.operands.at(1), kPredicate) + " != 0) << l;}\n" + kEach;
  if (ins.has("ballot"))
    out += write(ins.operands[0], kU32, "votes");
  else if (ins.has("all"))
    out += write(ins.operands[0], kPredicate, "votes == g");
  else if (ins.has("any"))
    out += write(ins.operands[0], kPredicate, "votes != 0");
  else if (ins.has("uni"))
    out += write(ins.operands[0], kPredicate, "votes == 0 || votes == g");
  else
    refuse(ins);
  out += "}\n";
}

void FunctionEmitter::match(const Instruction& ins, std::string& out) const {
  Type t{'u', last_type(ins).bits};
  const Operand& d = ins.operands.at(0);
  bool pair = d.kind == OperandKind::pair;
  out += "u64 source[32]; u32 same[32];\n" + std::string(kEach) +
         "source[l] = " + read(ins.operands.at(1), t) + ";}\n";
  out +=
      std::string(kEach) +
      "same[l] = 0; for (u32 m = 0; m < 32; ++m) if ((g >> m & 1) && source[m] == source[l]) same[l] |= 1u << m; }\n" +
      kEach;
  std::string result = ins.has("all") ? "(same[l] == g ? g : 0)" : "same[l]";
  out += write(pair ? d.elements[0] : d, kU32, result);
  if (pair) out += write(d.elements[1], kPredicate, "same[l] == g");
  out += "}\n";
}

void FunctionEmitter::reduce(const Instruction& ins, std::string& out) const {
  Type t = last_type(ins);
  static const std::map<std::string, std::string> steps = {{"add", "all + v"},
                                                           {"min", "v < all ? v : all"},
                                                           {"max", "v > all ? v : all"},
                                                           {"and", "all & v"},
                                                           {"or", "all | v"},
                                                           {"xor", "all ^ v"}};
  std::string step;
  for (auto& m : ins.mods)
    if (auto it = steps.find(m); it != steps.end()) step = it->second;
  if (step.empty() || t.is_float()) refuse(ins);
  if (t.kind == 'b') t.kind = 'u';
  out += c_type(t) + " all = 0; int started = 0;\n" + std::string(kEach) + c_type(t) +
         " v = " + read(ins.operands.at(1), t) + "; all = started ? (" + c_type(t) + ")(" + step +
         ") : v; started = 1; }\n";
  out += kEach + write(ins.operands[0], t, "all") + "}\n";
}

void FunctionEmitter::exchange(const Instruction& ins, std::string& out) const {
  line_ = ins.line;
  if (ins.op == "shfl")
    shuffle(ins, out);
  else if (ins.op == "vote")
    vote(ins, out);
  else if (ins.op == "match")
    match(ins, out);
  else if (ins.op == "redux")
    reduce(ins, out);
  else if (ins.op == "mma")
    multiply_matrices(ins, out);
  else if (ins.op == "ldmatrix" || ins.op == "stmatrix")
    move_matrices(ins, out);
  else if (ins.op == "movmatrix")
    transpose_matrix(ins, out);
  else if (ins.op == "wmma")
    wmma(ins, out);
  else if (ins.op == "elect")
    elect(ins, out);
}

}  // namespace softgpu::emit
