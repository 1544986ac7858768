// call: arguments travel as pointers to bytes, as PTX's own parameter space does.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

std::string FunctionEmitter::prototype() const {
  std::string s = "static void f_" + std::to_string(shared_.function_index.at(f_.name)) +
                  "(Cta* c, Thread* t, u8* lp";
  for (size_t i = 0; i < f_.returns.size() + f_.params.size(); ++i)
    s += ", u8* a" + std::to_string(i);
  return s + ")";
}

std::string FunctionEmitter::parameter(const std::string& name) const {
  std::string p = "p" + std::to_string(param_index_.at(name));
  return mode_ == Mode::lanes && kept_params_.count(name) ? "w->" + p + "[l]" : p;
}

// A pointer to the bytes of an argument; a register is copied to a temporary first.
std::string FunctionEmitter::argument(const Operand& o, int index, std::string& before) const {
  if (param_index_.count(o.name)) return parameter(o.name);
  std::string name = "v" + std::to_string(index);
  ptx::Type t = o.kind == OperandKind::reg && f_.registers.count(o.name) ? f_.registers.at(o.name)
                                                                         : ptx::Type{'b', 64};
  before +=
      "u64 " + name + " = " + (t.kind == 'p' ? read(o, t) : read_bits(o, {'b', t.bits})) + ";\n";
  return "(u8*)&" + name;
}

// Functions that the driver gives to every program: C that runs them, with a0, a1, … as the bytes
// of result and arguments.
static const std::map<std::string, std::pair<size_t, const char*>> kBuiltIns = {
    {"vprintf",
     {3, "u32 n = c->host->print(c, *(u64*)a1, *(u64*)a2); __builtin_memcpy(a0, &n, 4);"}},
    {"malloc", {2, "u64 n = c->host->allocate(c, *(u64*)a1); __builtin_memcpy(a0, &n, 8);"}},
    {"free", {1, "c->host->release(c, *(u64*)a0);"}},
    {"cudaGraphSetConditional", {2, "c->host->condition(c, *(u64*)a0, *(u32*)a1);"}},
    {"cudaCGGetIntrinsicHandle", {2, "u64 n = *(u32*)a1; __builtin_memcpy(a0, &n, 8);"}}};

bool FunctionEmitter::built_in(const std::string& name, const std::vector<std::string>& pointers,
                               std::string& out) const {
  if (name == "__assertfail" && pointers.size() == 5) {
    out += "c->host->assertion(c, *(u64*)" + pointers[0] + ", *(u64*)" + pointers[1] + ", *(u32*)" +
           pointers[2] + ", *(u64*)" + pointers[3] + ", " + thread("x") + ", " + thread("y") +
           ", " + thread("z") + ");\n";
    return true;
  }
  auto it = kBuiltIns.find(name);
  if (it == kBuiltIns.end() || it->second.first != pointers.size()) return false;
  for (size_t i = 0; i < pointers.size(); ++i)
    out += "u8* a" + std::to_string(i) + " = " + pointers[i] + ";\n";
  out += it->second.second + std::string("\n");
  return true;
}

bool FunctionEmitter::call(const Instruction& ins, std::string& out) {
  if (ins.op != "call") return false;
  const std::string& name = ins.operands.at(0).name;
  std::string before, after, body;
  int index = 0;
  std::vector<std::string> pointers;
  for (auto& r : ins.call_returns) {
    int at = index++;
    pointers.push_back(argument(r, at, before));
    if (!param_index_.count(r.name))
      after += write(r, {'b', f_.registers.at(r.name).bits}, "v" + std::to_string(at));
  }
  for (auto& a : ins.call_arguments) pointers.push_back(argument(a, index++, before));
  if (const ptx::Function* callee = shared_.module.find(name)) {
    if (!fits(ins, *callee))
      refuse(ins, "its arguments are not what the function " + name + " takes");
    body = invoke(ins, *callee, pointers);
  } else if (f_.registers.count(name))
    body = indirect(ins, pointers);
  else if (!built_in(name, pointers, body))
    refuse(ins, "function " + name + " has no body");
  out += "{ " + before + body + after + "}\n";
  return true;
}

// Results that the callee does not give are dropped: a caller may declare more than a function of C
// has.
std::string FunctionEmitter::invoke(const Instruction& ins, const ptx::Function& callee,
                                    const std::vector<std::string>& pointers) const {
  std::string list;
  for (size_t i = 0; i < pointers.size(); ++i)
    if (i < callee.returns.size() || i >= ins.call_returns.size()) list += ", " + pointers[i];
  return "f_" + std::to_string(shared_.function_index.at(callee.name)) + "(c, t, lp + " +
         std::to_string(local_bytes_) + list + ");\n";
}

// A function's address is its number in the module; a wrong one faults.
std::string FunctionEmitter::indirect(const Instruction& ins,
                                      const std::vector<std::string>& pointers) const {
  std::string s = "switch (" + read(ins.operands[0], {'u', 64}) + ") {\n";
  for (size_t i = 0; i < shared_.module.functions.size(); ++i) {
    const ptx::Function& f = shared_.module.functions[i];
    if (!f.defined || !shared_.function_index.count(f.name) ||
        f.returns.size() != ins.call_returns.size() || !fits(ins, f))
      continue;
    s += "case " + hex(ptx::function_address(i), 64) + ": " + invoke(ins, f, pointers) + "break;\n";
  }
  return s + "default: c->host->fault(c, FAULT_ADDRESS, " + read(ins.operands[0], {'u', 64}) +
         ");\n}\n";
}

// A callee reads its parameters by constant offsets, so the caller's bytes must be at least as
// many.
bool FunctionEmitter::fits(const Instruction& ins, const ptx::Function& callee) const {
  if (callee.params.size() != ins.call_arguments.size() ||
      callee.returns.size() > ins.call_returns.size())
    return false;
  auto enough = [&](const ptx::Variable& p, const Operand& o) {
    uint64_t given = 8;
    for (auto& v : f_.variables)
      if (v.name == o.name) given = v.bytes;
    return p.bytes <= given;
  };
  for (size_t i = 0; i < callee.returns.size(); ++i)
    if (!enough(callee.returns[i], ins.call_returns[i])) return false;
  for (size_t i = 0; i < callee.params.size(); ++i)
    if (!enough(callee.params[i], ins.call_arguments[i])) return false;
  return true;
}

std::string FunctionEmitter::device_function() {
  std::string s = prototype() + " {\n";
  s += "(void)t; if (++t->depth > 200 || lp + " + std::to_string(local_bytes_) +
       " > t->local_end) c->host->fault(c, FAULT_STACK, 0);\n";
  s += "const Constants k = constants(c); (void)k;\n" + registers(false, false);
  size_t at = 0;
  for (auto* list : {&f_.returns, &f_.params})
    for (auto& p : *list) {
      if (p.space == ptx::Space::reg && list == &f_.params)
        s += reg(p.name) + " = *(" + storage(p.type) + "*)a" + std::to_string(at) + ";\n";
      ++at;
    }
  s += blocks_scalar() + "done:;\n";
  at = 0;
  for (auto& p : f_.returns) {
    if (p.space == ptx::Space::reg)
      s += "*(" + storage(p.type) + "*)a" + std::to_string(at) + " = " + reg(p.name) + ";\n";
    ++at;
  }
  return s + "--t->depth;\n}\n";
}

}  // namespace softgpu::emit
