// Logic, shifts, bit fields, permutations and dot products of bytes.
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

class BitOperation {
 public:
  BitOperation(const FunctionScope& scope, const Instruction& ins) : scope_(scope), ins_(ins) {}

  Expr in(size_t i, Type t) const {
    if (i >= ins_.operands.size()) scope_.reject("too few operands");
    return scope_.read(ins_.operands[i], t);
  }
  Expr result() const;

 private:
  Expr logic(Type t) const;
  Expr shift(Type t) const;
  Expr field(Type t) const;
  Expr count(Type t) const;

  const FunctionScope& scope_;
  const Instruction& ins_;
};

Expr BitOperation::logic(Type t) const {
  if (ins_.op == "and") return expr(t, "{} & {}", in(1, t), in(2, t));
  if (ins_.op == "or") return expr(t, "{} | {}", in(1, t), in(2, t));
  if (ins_.op == "xor") return expr(t, "{} ^ {}", in(1, t), in(2, t));
  if (ins_.op == "cnot") return expr(t, "({} == 0)", in(1, t));
  return t.kind == 'p' ? expr(t, "!{}", in(1, t)) : expr(t, "~{}", in(1, t));
}

// Shift counts above the width clamp (PTX ISA, shl and shr).
Expr BitOperation::shift(Type t) const {
  std::string u = storage(t);
  int last = t.bits - 1;
  if (ins_.op == "shf") {
    const char* direction = ins_.take("l") ? "l" : ins_.take("r") ? "r" : nullptr;
    const char* overflow = ins_.take("wrap") ? "wrap" : ins_.take("clamp") ? "clamp" : nullptr;
    if (!direction || !overflow) scope_.refuse();
    return expr(t, "shf_{}_{}({}, {}, {})", direction, overflow, in(1, kU32), in(2, kU32),
                in(3, kU32));
  }
  Expr a = in(1, t), n = in(2, kU32);
  if (ins_.op == "shl")
    return expr(t, "({} >= {} ? 0 : ({}){} << ({} & {}))", n, t.bits, u, a, n, last);
  if (t.is_signed()) return expr(t, "({} >> ({} >= {} ? {} : {}))", a, n, t.bits, last, n);
  return expr(t, "({} >> ({} >= {} ? {} : {}) & -({})({} < {}))", a, n, t.bits, last, n, u, n,
              t.bits);
}

Expr BitOperation::field(Type t) const {
  const std::string& op = ins_.op;
  if (op == "bfe")
    return expr(t, "bfe_{}({}, {}, {})", c_type(t), in(1, t), in(2, kU32), in(3, kU32));
  if (op == "bfi")
    return expr(t, "bfi_{}({}, {}, {}, {})", storage(t), in(1, t), in(2, t), in(3, kU32),
                in(4, kU32));
  if (op == "brev") return expr(t, "brev_{}({})", storage(t), in(1, t));
  const char* overflow = ins_.take("wrap") ? "wrap" : ins_.take("clamp") ? "clamp" : nullptr;
  if (!overflow) scope_.refuse();
  if (op == "bmsk") return expr(t, "bmsk_{}({}, {})", overflow, in(1, kU32), in(2, kU32));
  return expr(t, "szext_{}_{}({}, {})", c_type(t), overflow, in(1, t), in(2, kU32));
}

// Results are 32-bit numbers for operands of any type.
Expr BitOperation::count(Type t) const {
  const std::string& op = ins_.op;
  if (op == "bfind")
    return expr(kU32, "bfind_{}({}, {})", c_type(t), in(1, t), ins_.take("shiftamt") ? 1 : 0);
  if (op == "popc") return expr(kU32, "(u32)__builtin_popcountll((u64){})", in(1, t));
  if (op == "clz") return expr(kU32, "clz_{}({})", storage(t), in(1, t));
  return expr(kU32, "fns({}, {}, {})", in(1, kU32), in(2, kU32), in(3, kS32));
}

Expr BitOperation::result() const {
  static const std::set<std::string> kLogic = {"and", "or", "xor", "not", "cnot"};
  static const std::set<std::string> kShifts = {"shl", "shr", "shf"};
  static const std::set<std::string> kCounts = {"bfind", "popc", "clz", "fns"};
  Type t = last_type(ins_);
  if (kLogic.count(ins_.op)) return logic(t);
  if (kShifts.count(ins_.op)) return shift(t);
  if (kCounts.count(ins_.op)) return count(t);
  return field(t);
}

}  // namespace

void emit_bit_field(FunctionScope& scope, const Instruction& ins, Code& out) {
  scope.assign(out, ins.operands.at(0), BitOperation(scope, ins).result());
}

void emit_video_difference(FunctionScope& scope, const Instruction& ins, Code& out) {
  bool add = ins.take("add");
  std::vector<bool> is_signed;
  for (size_t i = 0; i < 3; ++i) {
    const std::string& type = ins.take_at(i);
    if (type != "s32" && type != "u32") scope.refuse();
    is_signed.push_back(type == "s32");
  }
  BitOperation bits(scope, ins);
  scope.assign(out, ins.operands[0],
               expr(kU32, "absdiff({}, {}, {}, {}, {}, {}, {})", bits.in(1, kU32), bits.in(2, kU32),
                    bits.in(3, kU32), ins.op == "vabsdiff2" ? 16 : 8, is_signed[1] ? 1 : 0,
                    is_signed[2] ? 1 : 0, add ? 1 : 0));
}

void emit_permute(FunctionScope& scope, const Instruction& ins, Code& out) {
  static const std::map<std::string, int> kModes = {{"f4e", 1}, {"b4e", 2}, {"rc8", 3},
                                                    {"ecl", 4}, {"ecr", 5}, {"rc16", 6}};
  int mode = 0;
  if (last_type(ins) != kB32) scope.refuse();
  if (auto* m = ins.take_one_of(kModes)) mode = kModes.at(*m);
  BitOperation bits(scope, ins);
  scope.assign(out, ins.operands.at(0),
               expr(kU32, "prmt({}, {}, {}, {})", bits.in(1, kU32), bits.in(2, kU32),
                    bits.in(3, kU32), mode));
}

void emit_lop3(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (last_type(ins) != kB32) scope.refuse();
  BitOperation bits(scope, ins);
  Expr value = expr(kU32, "lop3({}, {}, {}, {})", bits.in(1, kU32), bits.in(2, kU32),
                    bits.in(3, kU32), bits.in(4, kU32));
  const Operand& to = ins.operands.at(0);
  if (to.kind != OperandKind::pair) {
    scope.assign(out, to, value);
    return;
  }
  // d|p: p is whether the result is not zero, joined with q.
  Expr q = bits.in(5, kPredicate);
  bool both = ins.take("and");
  if (!both && !ins.take("or")) scope.refuse();
  auto block = out.block("");
  out.add("u32 v = {}", value);
  scope.assign(out, to.elements[0], Expr{"v", kU32});
  scope.assign(out, to.elements[1], expr(kPredicate, "v != 0 {} {}", both ? "&&" : "||", q));
}

void emit_dot_product(FunctionScope& scope, const Instruction& ins, Code& out) {
  std::string function = "dp4a";
  if (ins.op == "dp2a") {
    function = ins.take("lo") ? "dp2a_lo" : "dp2a_hi";
    if (function == "dp2a_hi" && !ins.take("hi")) scope.refuse();
  }
  Type a = first_type(ins), b = last_type(ins);
  auto is_word = [](Type t) {
    return t == kU32 || t == kS32;
  };
  if (!is_word(a) || !is_word(b)) scope.refuse();
  BitOperation bits(scope, ins);
  scope.assign(out, ins.operands.at(0),
               expr(a == kS32 || b == kS32 ? kS32 : kU32, "{}_{}_{}({}, {}, {})", function,
                    c_type(a), c_type(b), bits.in(1, kU32), bits.in(2, kU32), bits.in(3, kU32)));
}

}  // namespace softgpu::emit
