// ld st atom red fences and prefetches.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

static Space space_of(const Instruction& ins) {
  for (auto& m : ins.mods) {
    std::string w = m.substr(0, m.find(':'));
    if (w == "global") return Space::global;
    if (w == "shared") return Space::shared;
    if (w == "local") return Space::local;
    if (w == "const") return Space::constant;
    if (w == "param") return Space::param;
  }
  return Space::none;
}

static size_t vector_length(const Instruction& ins) {
  return ins.has("v8") ? 8 : ins.has("v4") ? 4 : ins.has("v2") ? 2 : 1;
}

// Parameters live in host memory, so their constant offsets are checked here and not at run time.
void FunctionEmitter::check_parameter(const Instruction& ins, const Operand& a,
                                      uint64_t bytes) const {
  if (a.elements.empty()) return;
  const std::string& name = a.elements[0].name;
  for (auto* list : {&f_.params, &f_.returns, &f_.variables})
    for (auto& v : *list)
      if (v.name == name && v.space == Space::param &&
          (a.offset < 0 || (uint64_t)a.offset + bytes > v.bytes))
        refuse(ins, "the access is outside of its parameter");
}

bool FunctionEmitter::memory(const Instruction& ins, std::string& out) {
  static const std::set<std::string> silent = {"prefetch", "prefetchu",      "applypriority",
                                               "discard",  "griddepcontrol", "nanosleep",
                                               "pmevent",  "setmaxnreg"};
  if (silent.count(ins.op)) return true;
  if (ins.op == "membar" || ins.op == "fence") {
    out += "__atomic_thread_fence(__ATOMIC_SEQ_CST);\n";
    return true;
  }
  if (ins.op == "atom" || ins.op == "red") return atomic(ins, out);
  if (ins.op == "cp") return copy_async(ins, out);
  if (ins.op != "ld" && ins.op != "ldu" && ins.op != "st") return false;
  Type t = last_type(ins);
  if (t.bits == 128) refuse(ins);
  Type raw{t.is_signed() ? 's' : 'u', t.bits};
  size_t n = vector_length(ins);
  bool store = ins.op == "st";
  const Operand& value = ins.operands.at(store ? 1 : 0);
  const Operand& where = ins.operands.at(store ? 0 : 1);
  int bytes = t.bytes() * (int)n;
  check_parameter(ins, where, (uint64_t)bytes);
  out += "{ u8* a = " + address(ins, where, space_of(ins), bytes) + ";\n";
  bool ordered =
      ins.has("volatile") || ins.has("acquire") || ins.has("release") || ins.has("relaxed");
  auto element = [&](size_t i) -> const Operand& {
    if (value.kind != OperandKind::vector) return value;
    if (i >= value.elements.size()) refuse(ins, "the vector is too short");
    return value.elements[i];
  };
  for (size_t i = 0; i < n; ++i) {
    std::string place = "(" + c_type(raw) + "*)(a + " + std::to_string((int)i * t.bytes()) + ")";
    if (store)
      out += ordered ? "__atomic_store_n(" + place + ", (" + c_type(raw) + ")" +
                           read_bits(element(i), t) + ", __ATOMIC_RELEASE);\n"
                     : "*" + place + " = (" + c_type(raw) + ")" + read_bits(element(i), t) + ";\n";
    else
      out += "{ " + c_type(raw) + " v" + " = " +
             (ordered ? "__atomic_load_n(" + place + ", __ATOMIC_ACQUIRE)" : "*" + place) + ";\n" +
             write(element(i), raw, "v") + "}\n";
  }
  out += "}\n";
  return true;
}

// cp.async.{ca,cg}.shared.global [to], [from], bytes{, bytes that are read}; groups and waits have
// nothing left to do.
bool FunctionEmitter::copy_async(const Instruction& ins, std::string& out) {
  if (!ins.has("async") || ins.has("bulk")) refuse(ins);
  if (ins.has("mbarrier")) {  // the copies before it are done: what is left is the arrival, or one
                              // arrival more and one less
    if (ins.has("noinc"))
      out += "(void)mbarrier_arrive((u64*)" + address(ins, ins.operands.at(0), space_of(ins), 8) +
             ", 1, 0);\n";
    return true;
  }
  if (ins.has("commit_group") || ins.has("wait_group") || ins.has("wait_all")) return true;
  size_t n = ins.operands.size();
  if (n < 3 || ins.operands[2].kind != OperandKind::integer) refuse(ins);
  uint64_t bytes = ins.operands[2].bits;
  if (bytes != 4 && bytes != 8 && bytes != 16) refuse(ins, "it copies 4, 8 or 16 bytes");
  std::string size = std::to_string(bytes),
              from = n > 3 && !ins.has("L2::cache_hint") ? read(ins.operands[3], {'u', 32}) : size;
  out += "copy_async(" + address(ins, ins.operands[0], Space::shared, (int)bytes) + ", " +
         address(ins, ins.operands[1], Space::global, (int)bytes) + ", " + size + ", " + from +
         ");\n";
  return true;
}

bool FunctionEmitter::atomic(const Instruction& ins, std::string& out) {
  static const std::set<std::string> ops = {"add", "and", "or",  "xor",  "min",
                                            "max", "inc", "dec", "exch", "cas"};
  std::string op;
  for (auto& m : ins.mods)
    if (ops.count(m)) op = m;
  size_t n = vector_length(ins);
  std::string packed;
  for (auto& m : ins.mods)
    if (m == "f16x2" || m == "bf16x2") packed = m;
  if (op.empty() || ((n > 1 || !packed.empty()) && op != "add")) refuse(ins);
  Type t = packed.empty() ? last_type(ins) : Type{'b', 32};
  if (t.bits == 128 || (t.bits == 16 && op != "cas" && op != "add" && op != "exch")) refuse(ins);
  bool reduces = ins.op == "red";
  size_t first = reduces ? 0 : 1;
  Type v = t;
  if (op == "exch" || op == "cas" || op == "and" || op == "or" || op == "xor") v = {'u', t.bits};
  if (v.kind == 'b') v.kind = 'u';
  std::string place = address(ins, ins.operands.at(first), space_of(ins), t.bytes() * (int)n);
  auto element = [&](size_t operand, size_t k) -> const Operand& {
    const Operand& o = ins.operands.at(operand);
    if (n == 1) return o;
    if (o.kind != OperandKind::vector || k >= o.elements.size())
      refuse(ins, "the vector is too short");
    return o.elements[k];
  };
  out += "{ u8* a = " + place + ";\n";
  for (size_t k = 0; k < n; ++k) {
    std::string call = "atomic_" + op + "_" + (packed.empty() ? c_type(v) : packed) + "(a + " +
                       std::to_string((int)k * t.bytes()) + ", " + read(element(first + 1, k), v);
    if (op == "cas") call += ", " + read(ins.operands.at(first + 2), v);
    call += ")";
    out += reduces ? "(void)" + call + ";\n" : write(element(0, k), v, call);
  }
  out += "}\n";
  return true;
}

}  // namespace softgpu::emit
