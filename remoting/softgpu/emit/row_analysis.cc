#include "softgpu/emit/row_analysis.h"

#include <algorithm>
#include <set>

#include "softgpu/emit/types.h"

namespace softgpu::emit {

using ptx::Function;
using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

namespace {

// Opcodes whose result is affine if their operands are.
const std::set<std::string> kAffine = {"add", "sub", "mad", "mul", "shl",
                                       "neg", "mov", "cvt", "cvta"};
// Opcodes without an effect but their result.
const std::set<std::string> kPure = {
    "add",   "sub",  "mul",      "mad",  "fma",  "div",  "rem",  "abs",   "neg",  "min",
    "max",   "sqrt", "rsqrt",    "rcp",  "sin",  "cos",  "ex2",  "lg2",   "tanh", "mul24",
    "mad24", "sad",  "copysign", "setp", "set",  "selp", "slct", "testp", "mov",  "cvt",
    "cvta",  "and",  "or",       "xor",  "not",  "cnot", "lop3", "shl",   "shr",  "shf",
    "bfe",   "bfi",  "bfind",    "brev", "popc", "clz",  "prmt", "fns",   "dp4a", "dp2a"};
const std::set<std::string> kOrders = {"lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"};
constexpr int kMaxAccessBytes = 32;

bool is_return(const Instruction& ins) {
  return ins.op == "ret" || ins.op == "exit";
}

bool narrows_or_rounds(const Instruction& ins) {
  return ins.has("sat") || ins.has("hi") ||
         std::any_of(ins.mods.begin(), ins.mods.end(),
                     [](auto& m) { return m[0] == 'f' || m.rfind("bf", 0) == 0; });
}

// Return whether only unconditional returns follow.
bool only_returns_from(const Function& f, size_t at) {
  return std::all_of(f.body.begin() + (long)std::min(at, f.body.size()), f.body.end(),
                     [](auto& ins) { return is_return(ins) && ins.guard.empty(); });
}

class Analyser {
 public:
  explicit Analyser(const Function& kernel) : f_(kernel) {}

  std::optional<RowAnalysis> run() {
    if (!f_.variables.empty()) return std::nullopt;
    for (size_t i = 0; i < f_.body.size(); ++i) {
      if (is_return(f_.body[i])) {
        if (!only_returns_from(f_, i)) return std::nullopt;
        break;
      }
      if (!visit(f_.body[i])) return std::nullopt;
    }
    // A uniform load is a value that the sampled threads would need but cannot have.
    bool uniform_load = false, store = false;
    for (auto& a : row_.accesses) {
      store |= a.store;
      uniform_load |= !a.store && row_.of(a.where().elements[0]) == RowShape::uniform;
    }
    return store && !uniform_load ? std::optional(std::move(row_)) : std::nullopt;
  }

 private:
  bool visit(const Instruction& ins);
  bool visit_branch(const Instruction& ins);
  bool visit_access(const Instruction& ins);
  bool visit_compare(const Instruction& ins);
  bool is_pure(const Instruction& ins) const;
  bool define(const Operand& to, RowShape shape);
  RowShape result(const Instruction& ins) const;

  const Function& f_;
  RowAnalysis row_;
};

bool Analyser::visit(const Instruction& ins) {
  if (ins.op == "bra") return visit_branch(ins);
  if (!ins.guard.empty()) return false;
  if (ins.op == "ld" || ins.op == "st") return visit_access(ins);
  if (!is_pure(ins)) return false;
  if (ins.op == "setp") return visit_compare(ins);
  return define(ins.operands[0], result(ins));
}

// Only a conditional branch to the end, on a predicate that is known to be ordered.
bool Analyser::visit_branch(const Instruction& ins) {
  auto label = f_.labels.find(ins.operands.back().name);
  if (ins.guard.empty() || label == f_.labels.end() || !only_returns_from(f_, label->second) ||
      !row_.ordered.count(ins.guard))
    return false;
  row_.guards.push_back(&ins);
  return true;
}

bool Analyser::visit_access(const Instruction& ins) {
  bool store = ins.op == "st";
  if (ins.operands.size() != 2 || is_ordered(ins)) return false;
  const Operand& where = ins.operands[store ? 0 : 1];
  if (where.kind != OperandKind::address || where.elements.size() != 1) return false;
  ptx::Space space = state_space(ins);
  bool by_register = f_.registers.count(where.elements[0].name) > 0;
  if (space == ptx::Space::param)
    return !store && !by_register && define(ins.operands[0], RowShape::uniform);
  bool global_or_generic = space == ptx::Space::global || space == ptx::Space::none;
  if (!global_or_generic || !by_register) return false;
  ptx::Type t = last_type(ins);
  int bytes = t.bytes() * vector_length(ins);
  if (t.bits == 128 || bytes > kMaxAccessBytes) return false;
  RowShape shape = row_.of(where.elements[0]);
  if (shape == RowShape::varying || (store && shape == RowShape::uniform)) return false;
  row_.accesses.push_back({&ins, bytes, store});
  return store || define(ins.operands[0],
                         shape == RowShape::uniform ? RowShape::uniform : RowShape::varying);
}

bool Analyser::is_pure(const Instruction& ins) const {
  if (!kPure.count(ins.op) || ins.operands.empty()) return false;
  for (auto& o : ins.operands)
    if (o.kind == OperandKind::special && row_.of(o) == RowShape::varying)
      return false;  // a lane or a clock has no value for a row
  return std::none_of(ins.mods.begin(), ins.mods.end(),
                      [](auto& m) { return m == "cc" || m == "shared" || m == "local"; });
}

bool Analyser::visit_compare(const Instruction& ins) {
  if (ins.operands[0].kind != OperandKind::reg || ins.operands.size() != 3) return false;
  char kind = last_type(ins).kind;
  RowShape a = row_.of(ins.operands[1]), b = row_.of(ins.operands[2]);
  bool one_affine = a != RowShape::varying && b != RowShape::varying &&
                    !(a == RowShape::affine && b == RowShape::affine);
  if ((kind == 's' || kind == 'u') && one_affine && !ins.mods.empty() && kOrders.count(ins.mods[0]))
    row_.ordered[ins.operands[0].name] = &ins;
  bool uniform = a == RowShape::uniform && b == RowShape::uniform;
  return define(ins.operands[0], uniform ? RowShape::uniform : RowShape::varying);
}

// Return false for a register that is written twice.
bool Analyser::define(const Operand& to, RowShape shape) {
  if (to.kind == OperandKind::sink) return true;
  if (to.kind == OperandKind::vector)
    return std::all_of(to.elements.begin(), to.elements.end(),
                       [&](auto& e) { return define(e, shape); });
  return to.kind == OperandKind::reg && row_.shapes.emplace(to.name, shape).second;
}

RowShape Analyser::result(const Instruction& ins) const {
  int affine = 0;
  for (size_t i = 1; i < ins.operands.size(); ++i) {
    RowShape s = row_.of(ins.operands[i]);
    if (s == RowShape::varying) return s;
    affine += s == RowShape::affine;
  }
  if (!affine) return RowShape::uniform;
  if (!kAffine.count(ins.op) || narrows_or_rounds(ins)) return RowShape::varying;
  auto is_affine = [&](size_t i) {
    return row_.of(ins.operands[i]) == RowShape::affine;
  };
  if ((ins.op == "mul" || ins.op == "mad") && is_affine(1) && is_affine(2))
    return RowShape::varying;
  if (ins.op == "shl" && is_affine(2)) return RowShape::varying;
  return RowShape::affine;
}

}  // namespace

RowShape RowAnalysis::of(const Operand& o) const {
  if (o.kind == OperandKind::reg) {
    auto it = shapes.find(o.name);
    return it == shapes.end() ? RowShape::uniform : it->second;
  }
  if (o.kind == OperandKind::special) {
    if (o.name == "%tid.x") return RowShape::affine;
    for (const char* fixed : {"%tid.y", "%tid.z", "%ntid.", "%ctaid.", "%nctaid."})
      if (o.name.rfind(fixed, 0) == 0) return RowShape::uniform;
    return RowShape::varying;
  }
  if (o.kind == OperandKind::symbol) {  // of a variable or, in mov, of a register
    auto base = shapes.find(o.name);
    bool fixed = base == shapes.end() || base->second == RowShape::uniform;
    return fixed && o.elements.empty() ? RowShape::uniform : RowShape::varying;
  }
  return o.kind == OperandKind::vector || o.kind == OperandKind::pair ? RowShape::varying
                                                                      : RowShape::uniform;
}

std::optional<RowAnalysis> analyse_row(const Function& kernel) {
  return Analyser(kernel).run();
}

}  // namespace softgpu::emit
