// call: arguments travel as pointers to bytes, as PTX's own parameter space does.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

std::string FunctionEmitter::prototype() const {
  std::string s = "static void f" + std::to_string(shared_.function_index.at(f_.name)) + "(Cta* c, Thread* t, u8* lp";
  for (size_t i = 0; i < f_.returns.size() + f_.params.size(); ++i) s += ", u8* a" + std::to_string(i);
  return s + ")";
}

// A pointer to the bytes of an argument; a register is copied to a temporary first.
std::string FunctionEmitter::argument(const Operand& o, int index, std::string& before) const {
  if (auto it = param_index_.find(o.name); it != param_index_.end()) return "p" + std::to_string(it->second);
  std::string name = "v" + std::to_string(index);
  ptx::Type t = o.kind == OperandKind::reg && f_.registers.count(o.name) ? f_.registers.at(o.name) : ptx::Type{'b', 64};
  before += "u64 " + name + " = " + (t.kind == 'p' ? read(o, t) : read_bits(o, {'b', t.bits})) + ";\n";
  return "(u8*)&" + name;
}

bool FunctionEmitter::call(const Instruction& ins, std::string& out) {
  if (ins.op != "call") return false;
  const std::string& name = ins.operands.at(0).name;
  std::string before, after, list;
  int index = 0;
  std::vector<std::string> pointers;
  for (auto& r : ins.call_returns) {
    int at = index++;
    pointers.push_back(argument(r, at, before));
    if (!param_index_.count(r.name)) after += write(r, {'b', f_.registers.at(r.name).bits}, "v" + std::to_string(at));
  }
  for (auto& a : ins.call_arguments) pointers.push_back(argument(a, index++, before));
  for (auto& p : pointers) list += ", " + p;
  if (name == "vprintf" && pointers.size() == 3) {
    out += "{ " + before + "u32 n = c->host->print(c, *(u64*)" + pointers[1] + ", *(u64*)" + pointers[2] + "); __builtin_memcpy(" + pointers[0] + ", &n, 4);\n" + after + "}\n";
    return true;
  }
  if (name == "__assertfail") { out += "{ " + before + "c->host->fault(c, FAULT_ASSERT, 0); }\n"; return true; }
  auto callee = shared_.function_index.find(name);
  if (callee == shared_.function_index.end()) refuse(ins, f_.registers.count(name) ? "indirect calls are not supported" : "function " + name + " has no body");
  const ptx::Function* f = shared_.module.find(name);
  if (pointers.size() != f->params.size() + f->returns.size()) refuse(ins, "the number of arguments differs from the function's");
  for (size_t i = 0; i < pointers.size(); ++i) check_argument(ins, *f, i);
  out += "{ " + before + "f" + std::to_string(callee->second) + "(c, t, lp + " + std::to_string(local_bytes_) + list + ");\n" + after + "}\n";
  return true;
}

// A callee reads its parameters by constant offsets, so the caller's bytes must be at least as many.
void FunctionEmitter::check_argument(const Instruction& ins, const ptx::Function& callee, size_t i) const {
  size_t returns = callee.returns.size();
  const ptx::Variable& p = i < returns ? callee.returns[i] : callee.params[i - returns];
  const Operand& o = i < ins.call_returns.size() ? ins.call_returns[i] : ins.call_arguments.at(i - ins.call_returns.size());
  uint64_t given = 8;
  for (auto& v : f_.variables) if (v.name == o.name) given = v.bytes;
  if (p.bytes > given) refuse(ins, "an argument is smaller than the parameter");
}

std::string FunctionEmitter::device_function() {
  std::string s = prototype() + " {\n";
  s += "(void)t; if (++t->depth > 200 || lp + " + std::to_string(local_bytes_) + " > t->local_end) c->host->fault(c, FAULT_STACK, 0);\n";
  s += "const Constants k = constants(c); (void)k;\n" + registers(false, false);
  size_t at = 0;
  for (auto* list : {&f_.returns, &f_.params})
    for (auto& p : *list) {
      if (p.space == ptx::Space::reg && list == &f_.params) s += reg(p.name) + " = *(" + storage(p.type) + "*)a" + std::to_string(at) + ";\n";
      ++at;
    }
  s += blocks_scalar() + "done:;\n";
  at = 0;
  for (auto& p : f_.returns) { if (p.space == ptx::Space::reg) s += "*(" + storage(p.type) + "*)a" + std::to_string(at) + " = " + reg(p.name) + ";\n"; ++at; }
  return s + "--t->depth;\n}\n";
}

}  // namespace softgpu::emit
