// shfl vote match redux elect
#include "softgpu/emit/cross_lane.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

Code::Block for_each_lane(Code& out) {
  return out.block("for (u32 l = 0; l < 32; ++l) if (g >> l & 1)");
}

void emit_shuffle(FunctionScope& scope, const Instruction& ins, Code& out) {
  const Operand& to = ins.operands.at(0);
  bool pair = to.kind == OperandKind::pair;
  int mode = ins.take("up") ? 0 : ins.take("down") ? 1 : ins.take("bfly") ? 2 : 3;
  if (mode == 3 && !ins.take("idx")) scope.reject("it names no mode");
  if (last_type(ins).bits != 32) scope.refuse();
  out.add("u32 source[32]");
  out.add("(void)source");
  {
    auto lane = for_each_lane(out);
    out.add("source[l] = {}", scope.read(ins.operands.at(1), kU32));
  }
  auto lane = for_each_lane(out);
  out.add("u32 from");
  out.add("u8 ok = shuffle_source({}, l, {}, {}, &from)", mode,
          scope.read(ins.operands.at(2), kU32), scope.read(ins.operands.at(3), kU32));
  out.add("u32 got = g >> from & 1 ? source[from] : source[l]");
  scope.assign(out, pair ? to.elements[0] : to, {"got", kU32});
  if (pair)
    scope.assign(out, to.elements[1], {"ok", kPredicate});
  else
    out.add("(void)ok");
}

void emit_vote(FunctionScope& scope, const Instruction& ins, Code& out) {
  (void)last_type(ins);
  out.add("u32 votes = 0");
  {
    auto lane = for_each_lane(out);
    out.add("votes |= (u32)({} != 0) << l", scope.read(ins.operands.at(1), kPredicate));
  }
  Expr result;
  if (ins.take("ballot"))
    result = {"votes", kU32};
  else if (ins.take("all"))
    result = {"votes == g", kPredicate};
  else if (ins.take("any"))
    result = {"votes != 0", kPredicate};
  else if (ins.take("uni"))
    result = {"votes == 0 || votes == g", kPredicate};
  else
    scope.refuse();
  auto lane = for_each_lane(out);
  scope.assign(out, ins.operands[0], result);
}

void emit_match(FunctionScope& scope, const Instruction& ins, Code& out) {
  Type t{'u', last_type(ins).bits};
  const Operand& to = ins.operands.at(0);
  bool pair = to.kind == OperandKind::pair, all = ins.take("all");
  if (!all && !ins.take("any")) scope.refuse();
  out.add("u64 source[32]");
  out.add("u32 same[32]");
  {
    auto lane = for_each_lane(out);
    out.add("source[l] = {}", scope.read(ins.operands.at(1), t));
  }
  {
    auto lane = for_each_lane(out);
    out.add("same[l] = 0");
    out.add(
        "for (u32 m = 0; m < 32; ++m) if ((g >> m & 1) && source[m] == source[l]) "
        "same[l] |= 1u << m");
  }
  auto lane = for_each_lane(out);
  scope.assign(out, pair ? to.elements[0] : to, {all ? "(same[l] == g ? g : 0)" : "same[l]", kU32});
  if (pair) scope.assign(out, to.elements[1], {"same[l] == g", kPredicate});
}

void emit_reduce(FunctionScope& scope, const Instruction& ins, Code& out) {
  static const std::map<std::string, const char*> kSteps = {{"add", "all + v"},
                                                            {"min", "v < all ? v : all"},
                                                            {"max", "v > all ? v : all"},
                                                            {"and", "all & v"},
                                                            {"or", "all | v"},
                                                            {"xor", "all ^ v"}};
  Type t = last_type(ins);
  const char* step = nullptr;
  if (auto* m = ins.take_one_of(kSteps)) step = kSteps.at(*m);
  if (!step || t.is_float()) scope.refuse();
  if (t.kind == 'b') t.kind = 'u';
  std::string c = c_type(t);
  out.add("{} all = 0", c);
  out.add("int started = 0");
  {
    auto lane = for_each_lane(out);
    out.add("{} v = {}", c, scope.read(ins.operands.at(1), t));
    out.add("all = started ? ({})({}) : v", c, step);
    out.add("started = 1");
  }
  auto lane = for_each_lane(out);
  scope.assign(out, ins.operands[0], {"all", t});
}

// elect.sync d|p, members: the lowest lane is elected.
void emit_elect(FunctionScope& scope, const Instruction& ins, Code& out) {
  const Operand& to = ins.operands[0];
  if (to.kind != OperandKind::pair) scope.refuse();
  auto lane = for_each_lane(out);
  scope.assign(out, to.elements[0], {"(u32)__builtin_ctz(g)", kU32});
  scope.assign(out, to.elements[1], {"l == (u32)__builtin_ctz(g)", kPredicate});
}

// bar.warp.sync: the lanes wait for each other; that is all.
void emit_warp_barrier(FunctionScope&, const Instruction& ins, Code&) {
  ins.take("warp");
}

using Emit = void (*)(FunctionScope& scope, const Instruction& ins, Code& out);
const std::map<std::string, Emit> kExchanges = {
    {"bar", emit_warp_barrier}, {"elect", emit_elect},  {"ldmatrix", emit_move_matrices},
    {"match", emit_match},      {"mma", emit_mma},      {"movmatrix", emit_transpose_matrix},
    {"redux", emit_reduce},     {"shfl", emit_shuffle}, {"stmatrix", emit_move_matrices},
    {"vote", emit_vote},        {"wmma", emit_wmma}};

}  // namespace

std::string member_mask(const FunctionScope& scope, const Instruction& ins) {
  if (!ins.has("sync") || ins.has("aligned")) return "~0u";
  return scope.read(ins.operands.back(), kU32).text;
}

void emit_exchange(FunctionScope& scope, const Instruction& ins, Code& out) {
  scope.begin(ins);
  kExchanges.at(ins.op)(scope, ins, out);
  scope.end();
}

}  // namespace softgpu::emit
