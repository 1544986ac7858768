// Kernels that go through memory in steps as long as their accesses: `if (i < n) c[i] = f(a[i],
// b[i])`.
//
// All values that addresses and guards depend on are affine in the thread's x, but for wrapping.
// Evaluated at the first, the second and the last thread of a row they tell whether they are linear
// over the row, without one; then one check of both ends does for all, and C's compiler sees plain
// arrays.
#include <algorithm>

#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

namespace {

enum class Shape { uniform, affine, varying };

const std::set<std::string> kAffine = {"add", "sub", "mad", "mul", "shl",
                                       "neg", "mov", "cvt", "cvta"};
const std::set<std::string> kPure = {
    "add",   "sub",  "mul",      "mad",  "fma",  "div",  "rem",  "abs",   "neg",  "min",
    "max",   "sqrt", "rsqrt",    "rcp",  "sin",  "cos",  "ex2",  "lg2",   "tanh", "mul24",
    "mad24", "sad",  "copysign", "setp", "set",  "selp", "slct", "testp", "mov",  "cvt",
    "cvta",  "and",  "or",       "xor",  "not",  "cnot", "lop3", "shl",   "shr",  "shf",
    "bfe",   "bfi",  "bfind",    "brev", "popc", "clz",  "prmt", "fns",   "dp4a", "dp2a"};
const std::set<std::string> kOrdered = {"lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"};

bool narrows_or_rounds(const Instruction& ins) {
  return ins.has("sat") || ins.has("hi") ||
         std::any_of(ins.mods.begin(), ins.mods.end(),
                     [](auto& m) { return m[0] == 'f' || m.rfind("bf", 0) == 0; });
}

struct Access {
  const Instruction* ins;
  int bytes;
  bool store;
};

}  // namespace

// What is known of a kernel that may stream.
struct Stream {
  std::map<std::string, Shape> shapes;
  std::map<std::string, const Instruction*>
      ordered;  // predicates that compare one affine value with a uniform one
  std::vector<Access> accesses;
  std::vector<const Instruction*> guards;  // @p bra to the end

  Shape of(const Operand& o) const {
    if (o.kind == OperandKind::reg) {
      auto it = shapes.find(o.name);
      return it == shapes.end() ? Shape::uniform : it->second;
    }
    if (o.kind == OperandKind::special) {
      if (o.name == "%tid.x") return Shape::affine;
      for (const char* fixed : {"%tid.y", "%tid.z", "%ntid.", "%ctaid.", "%nctaid."})
        if (o.name.rfind(fixed, 0) == 0) return Shape::uniform;
      return Shape::varying;
    }
    return o.kind == OperandKind::vector || o.kind == OperandKind::pair ? Shape::varying
                                                                        : Shape::uniform;
  }

  Shape result(const Instruction& ins) const {
    int affine = 0;
    for (size_t i = 1; i < ins.operands.size(); ++i) {
      Shape s = of(ins.operands[i]);
      if (s == Shape::varying) return s;
      affine += s == Shape::affine;
    }
    if (!affine) return Shape::uniform;
    if (!kAffine.count(ins.op) || narrows_or_rounds(ins)) return Shape::varying;
    if ((ins.op == "mul" || ins.op == "mad") && of(ins.operands[1]) == Shape::affine &&
        of(ins.operands[2]) == Shape::affine)
      return Shape::varying;
    if (ins.op == "shl" && of(ins.operands[2]) == Shape::affine) return Shape::varying;
    return Shape::affine;
  }
};

static bool define(Stream& s, const Operand& to, Shape shape) {
  if (to.kind == OperandKind::sink) return true;
  if (to.kind == OperandKind::vector)
    return std::all_of(to.elements.begin(), to.elements.end(),
                       [&](auto& e) { return define(s, e, shape); });
  return to.kind == OperandKind::reg && s.shapes.emplace(to.name, shape).second;  // defined once
}

static bool ends_there(const ptx::Function& f, size_t at) {
  for (; at < f.body.size(); ++at)
    if ((f.body[at].op != "ret" && f.body[at].op != "exit") || !f.body[at].guard.empty())
      return false;
  return true;
}

static bool memory_access(Stream& s, const ptx::Function& f, const Instruction& ins) {
  bool store = ins.op == "st";
  if (ins.operands.size() != 2 || ins.has("volatile") || ins.has("acquire") || ins.has("release") ||
      ins.has("relaxed"))
    return false;
  const Operand& where = ins.operands[store ? 0 : 1];
  if (where.kind != OperandKind::address || where.elements.size() != 1) return false;
  if (ins.has("param")) return !store && define(s, ins.operands[0], Shape::uniform);
  bool known_space =
      ins.has("global") || (!ins.has("shared") && !ins.has("local") && !ins.has("const"));
  if (!known_space || ins.has("shared::cta") || !f.registers.count(where.elements[0].name))
    return false;
  ptx::Type t = last_type(ins);
  int bytes = t.bytes() * (ins.has("v8") ? 8 : ins.has("v4") ? 4 : ins.has("v2") ? 2 : 1);
  if (t.bits == 128 || bytes > 32) return false;
  Shape shape = s.of(where.elements[0]);
  if (shape == Shape::varying || (store && shape == Shape::uniform)) return false;
  s.accesses.push_back({&ins, bytes, store});
  return store ||
         define(s, ins.operands[0], shape == Shape::uniform ? Shape::uniform : Shape::varying);
}

static bool examine(Stream& s, const ptx::Function& f) {
  if (!f.variables.empty()) return false;
  for (size_t i = 0; i < f.body.size(); ++i) {
    const Instruction& ins = f.body[i];
    if (ins.op == "ret" || ins.op == "exit") {
      if (!ends_there(f, i)) return false;
      break;
    }
    if (ins.op == "bra") {
      auto label = f.labels.find(ins.operands.back().name);
      if (ins.guard.empty() || label == f.labels.end() || !ends_there(f, label->second) ||
          !s.ordered.count(ins.guard))
        return false;
      s.guards.push_back(&ins);
      continue;
    }
    if (!ins.guard.empty()) return false;
    if (ins.op == "ld" || ins.op == "st") {
      if (!memory_access(s, f, ins)) return false;
      continue;
    }
    if (!kPure.count(ins.op) || ins.operands.empty()) return false;
    for (auto& o : ins.operands)
      if (o.kind == OperandKind::special && s.of(o) == Shape::varying)
        return false;  // a lane, a clock: not of a row
    for (auto& m : ins.mods)
      if (m == "cc" || m == "shared" || m == "local") return false;
    if (ins.op == "setp") {
      if (ins.operands[0].kind != OperandKind::reg || ins.operands.size() != 3) return false;
      bool integers = last_type(ins).kind == 's' || last_type(ins).kind == 'u';
      Shape a = s.of(ins.operands[1]), b = s.of(ins.operands[2]);
      bool straight =
          a != Shape::varying && b != Shape::varying && !(a == Shape::affine && b == Shape::affine);
      if (integers && straight && !ins.mods.empty() && kOrdered.count(ins.mods[0]))
        s.ordered[ins.operands[0].name] = &ins;
      if (!define(s, ins.operands[0],
                  a == Shape::uniform && b == Shape::uniform ? Shape::uniform : Shape::varying))
        return false;
      continue;
    }
    if (!define(s, ins.operands[0], s.result(ins))) return false;
  }
  return std::any_of(s.accesses.begin(), s.accesses.end(), [](auto& a) { return a.store; });
}

// Values at one thread: everything but what is loaded, and what depends on it.
std::string FunctionEmitter::stream_slice(const Stream& s) {
  std::string out;
  for (auto& ins : f_.body) {
    if (ins.op == "ret" || ins.op == "exit") break;
    if (ins.op == "bra" || ins.op == "st" || (ins.op == "ld" && !ins.has("param"))) continue;
    const Operand& to = ins.operands[0];
    bool guard = s.ordered.count(to.name) > 0;
    bool known = to.kind == OperandKind::reg && s.shapes.count(to.name) &&
                 s.shapes.at(to.name) != Shape::varying;
    bool loaded = std::any_of(ins.operands.begin() + 1, ins.operands.end(),
                              [&](auto& o) { return s.of(o) == Shape::varying; });
    if ((known || guard) && !loaded) statement(ins, out);
  }
  return out;
}

std::string FunctionEmitter::stream_function() {
  Stream s;
  if (cross_lane() || !f_.entry || !examine(s, f_)) return "";
  // A uniform load would be a value that the slice needs but cannot have.
  for (auto& a : s.accesses)
    if (!a.store && s.of(a.ins->operands[1].elements[0]) == Shape::uniform) return "";
  mode_ = Mode::scalar;
  std::string n = std::to_string(s.accesses.size()),
              m = std::to_string(std::max<size_t>(s.guards.size(), 1));
  std::string out =
      "static int softgpu_stream(Cta* c, const Constants k, const u8* params, u32 first, u32 y, u32 z, u32 length) {\nu64 P[3][" +
      n + "]; s128 G[3][" + m + "]; u32 leaves = 0; (void)G;\n";
  out +=
      "for (u32 e = 0; e < 3; ++e) { const u32 x = e == 0 ? first : e == 1 ? first + 1 : first + length - 1; (void)x;\n" +
      registers(false, false) + stream_slice(s);
  for (size_t j = 0; j < s.accesses.size(); ++j) {
    const Operand& where = s.accesses[j].ins->operands[s.accesses[j].store ? 0 : 1];
    out += "P[e][" + std::to_string(j) + "] = (u64)" + reg(where.elements[0].name) + " + " +
           hex((uint64_t)where.offset, 64) + ";\n";
  }
  for (size_t g = 0; g < s.guards.size(); ++g) {
    const Instruction& compare = *s.ordered.at(s.guards[g]->guard);
    ptx::Type t = last_type(compare);
    bool first = s.of(compare.operands[1]) == Shape::affine;
    out += "leaves |= " + std::string(s.guards[g]->guard_negated ? "!" : "") +
           reg(s.guards[g]->guard) + ";\nG[e][" + std::to_string(g) + "] = (s128)" +
           read(compare.operands[first ? 1 : 2], t) + ";\n";
  }
  out += "}\nif (leaves) return 0;\n";
  for (size_t g = 0; g < s.guards.size(); ++g) {
    std::string i = "[" + std::to_string(g) + "]";
    out += "if (G[2]" + i + " - G[0]" + i + " != (G[1]" + i + " - G[0]" + i +
           ") * (length - 1)) return 0;\n";
  }
  std::map<const Instruction*, std::string> places;
  for (size_t j = 0; j < s.accesses.size(); ++j) {
    std::string i = "[" + std::to_string(j) + "]", bytes = std::to_string(s.accesses[j].bytes);
    out += "if (!in_steps(P[0]" + i + ", P[1]" + i + ", P[2]" + i + ", " + bytes +
           ", length)) return 0;\nu8* p" + std::to_string(j) + " = (u8*)P[0]" + i + ";\n";
    places[s.accesses[j].ins] = "(p" + std::to_string(j) + " + (u64)l * " + bytes + ")";
  }
  out +=
      "_Pragma(\"GCC ivdep\")\nfor (u32 l = 0; l < length; ++l) { const u32 x = first + l; (void)x;\n" +
      registers(false, false);
  places_ = &places;
  for (auto& ins : f_.body) {
    if (ins.op == "ret" || ins.op == "exit") break;
    if (ins.op != "bra") statement(ins, out);
  }
  places_ = nullptr;
  return out + "}\nreturn 1;\n}\n";
}

}  // namespace softgpu::emit
