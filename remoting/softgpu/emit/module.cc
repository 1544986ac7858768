// Gathers what one kernel reaches and puts the C file together.
#include <algorithm>
#include <functional>

#include "softgpu/emit/emitter.h"
#include "softgpu/emit/runtime_text.h"
#include "softgpu/ptx/inline.h"

namespace softgpu::emit {

using ptx::Function;
using ptx::Module;
using ptx::Operand;
using ptx::Space;

namespace {

struct Reach {
  const Module& module;
  std::vector<const Function*> functions;
  std::set<std::string> symbols;

  void operand(const Operand& o) {
    if (!o.name.empty()) symbols.insert(o.name);
    for (auto& e : o.elements) operand(e);
  }
  // An indirect call may reach every function whose address is taken: in a variable, or as an
  // operand that is not called.
  void visit_addressed() {
    if (addressed_) return;
    addressed_ = true;
    std::set<std::string> named;
    for (auto& v : module.variables)
      for (auto& r : v.references) named.insert(r.symbol);
    for (auto& f : module.functions)
      for (auto& ins : f.body)
        if (ins.op != "call")
          for (auto& o : ins.operands) named.insert(o.name);
    for (auto& f : module.functions)
      if (f.defined && !f.entry && named.count(f.name)) visit(f);
  }
  bool addressed_ = false;

  void visit(const Function& f) {
    if (std::find(functions.begin(), functions.end(), &f) != functions.end()) return;
    functions.push_back(&f);
    for (auto& ins : f.body) {
      for (auto* list : {&ins.operands, &ins.call_returns, &ins.call_arguments})
        for (auto& o : *list) operand(o);
      if (ins.op != "call") continue;
      if (auto* callee = module.find(ins.operands.at(0).name))
        visit(*callee);
      else if (f.registers.count(ins.operands[0].name))
        visit_addressed();
    }
  }
};

uint64_t align_up(uint64_t v, uint64_t a) {
  return (v + a - 1) / a * a;
}

void layout_shared(const Reach& reach, FunctionEmitter::Shared& shared, KernelSource& source) {
  uint64_t at = 0;
  std::vector<const ptx::Variable*> dynamic;
  auto place = [&](const ptx::Variable& v) {
    if (v.space != Space::shared) return;
    if (v.external || v.bytes == 0) {
      dynamic.push_back(&v);
      return;
    }
    at = align_up(at, v.align);
    shared.shared_offset[v.name] = at;
    at += v.bytes;
  };
  for (auto& v : reach.module.variables)
    if (reach.symbols.count(v.name)) place(v);
  for (auto* f : reach.functions)
    for (auto& v : f->variables) place(v);
  source.shared_bytes = at;
  for (auto* v : dynamic) shared.shared_offset[v->name] = align_up(at, 16);
}

}  // namespace

KernelSource emit_kernel(const Module& module, const Function& written) {
  const Function kernel = ptx::inline_synchronising(module, written);
  Reach reach{module, {}, {}, false};
  reach.visit(kernel);
  KernelSource source;
  FunctionEmitter::Shared shared{module, {}, {}, {}};
  layout_shared(reach, shared, source);
  for (auto& v : module.variables)
    if ((v.space == Space::global || v.space == Space::constant) && reach.symbols.count(v.name)) {
      shared.global_index[v.name] = source.globals.size();
      source.globals.push_back(v.name);
      if (v.space == Space::constant) source.constant_bytes += v.bytes;
    }
  for (size_t i = 1; i < reach.functions.size(); ++i)
    shared.function_index[reach.functions[i]->name] = (int)i;
  std::string prototypes, bodies;
  for (size_t i = 1; i < reach.functions.size(); ++i) {
    FunctionEmitter e(shared, *reach.functions[i]);
    prototypes += e.prototype() + ";\n";
    bodies += e.checked(&FunctionEmitter::device_function);
  }
  for (auto& [name, type] : kernel.registers)
    source.registers += type.bits == 64 ? 2 : type.kind != 'p';
  FunctionEmitter entry(shared, kernel);
  std::string main = entry.checked(entry.cross_lane() ? &FunctionEmitter::lockstep_kernel
                                                      : &FunctionEmitter::scalar_kernel);
  for (auto& [mark, text] : {std::pair<std::string, const char*>{"thread_loop", kThreadLoop},
                             {"warp_machine", kWarpMachine},
                             {"warp_loop", kWarpLoop}}) {
    std::string line = "#include \"" + mark + "\"\n";
    if (size_t at = main.find(line); at != std::string::npos) main.replace(at, line.size(), text);
  }
  source.local_bytes = entry.local_bytes() + (reach.functions.size() > 1 ? 16384 : 0);
  bool matrices = std::any_of(kernel.body.begin(), kernel.body.end(), [](auto& ins) {
    return ins.op.find("matrix") != std::string::npos || ins.op == "mma" || ins.op == "wmma";
  });
  source.text =
      std::string(kKernelRuntime) + (matrices ? kMatrix : "") + prototypes + bodies + main;
  return source;
}

}  // namespace softgpu::emit
