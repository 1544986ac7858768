#include "softgpu/emit/kernel.h"

#include <algorithm>

#include "softgpu/emit/calls.h"
#include "softgpu/emit/lockstep.h"
#include "softgpu/emit/runtime_text.h"
#include "softgpu/emit/serial.h"
#include "softgpu/ptx/inline.h"
#include "softgpu/ptx/operand_check.h"

namespace softgpu::emit {

using ptx::Function;
using ptx::Module;
using ptx::Operand;
using ptx::Space;

namespace {

constexpr uint64_t kCallStackBytes = 16384;  // of one thread, for all called functions together

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// The functions and symbols that a kernel uses, directly or through calls.
struct Reach {
  const Module& module;
  std::vector<const Function*> functions;  // the kernel first
  std::set<std::string> symbols;
  bool addressed_functions_visited = false;

  void visit(const Function& f);
  void visit_addressed_functions();
  void visit_operand(const Operand& o);
};

void Reach::visit_operand(const Operand& o) {
  if (!o.name.empty()) symbols.insert(o.name);
  for (auto& e : o.elements) visit_operand(e);
}

// An indirect call may reach every function whose address is taken: in a variable, or as an operand
// that is not called.
void Reach::visit_addressed_functions() {
  if (addressed_functions_visited) return;
  addressed_functions_visited = true;
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

void Reach::visit(const Function& f) {
  if (std::find(functions.begin(), functions.end(), &f) != functions.end()) return;
  functions.push_back(&f);
  for (auto& ins : f.body) {
    for (auto* list : {&ins.operands, &ins.call_returns, &ins.call_arguments})
      for (auto& o : *list) visit_operand(o);
    if (ins.op != "call") continue;
    if (auto* callee = module.find(ins.operands.at(0).name))
      visit(*callee);
    else if (f.registers.count(ins.operands[0].name))
      visit_addressed_functions();
  }
}

// Dynamic shared memory begins behind the static variables.
void lay_out_shared(const Reach& reach, KernelScope& scope, KernelSource& source) {
  uint64_t at = 0;
  std::vector<const ptx::Variable*> dynamic;
  auto place = [&](const ptx::Variable& v) {
    if (v.space != Space::shared) return;
    if (v.external || v.bytes == 0) {
      dynamic.push_back(&v);
      return;
    }
    at = align_up(at, v.align);
    scope.shared_offset[v.name] = at;
    at += v.bytes;
  };
  for (auto& v : reach.module.variables)
    if (reach.symbols.count(v.name)) place(v);
  for (auto* f : reach.functions)
    for (auto& v : f->variables) place(v);
  source.shared_bytes = at;
  for (auto* v : dynamic) scope.shared_offset[v->name] = align_up(at, 16);
}

void number_globals(const Reach& reach, KernelScope& scope, KernelSource& source) {
  for (auto& v : reach.module.variables) {
    if ((v.space != Space::global && v.space != Space::constant) || !reach.symbols.count(v.name))
      continue;
    scope.global_index[v.name] = source.globals.size();
    source.globals.push_back(v.name);
    if (v.space == Space::constant) source.constant_bytes += v.bytes;
  }
}

// Run `emit` and turn an operand or modifier that is missing into a refusal.
template <typename Emit>
void emit_checked(FunctionScope& scope, Emit emit) {
  try {
    emit();
  } catch (const std::out_of_range&) {
    scope.reject("too few operands or modifiers");
  }
}

bool has_matrix_instruction(const Function& f) {
  return std::any_of(f.body.begin(), f.body.end(), [](auto& ins) {
    return ins.op.find("matrix") != std::string::npos || ins.op == "mma" || ins.op == "wmma";
  });
}

void emit_called_functions(const Reach& reach, const KernelScope& kernel, Code& out) {
  Code bodies;
  for (size_t i = 1; i < reach.functions.size(); ++i) {
    FunctionScope scope(kernel, *reach.functions[i]);
    out.add("{}", prototype(scope));
    emit_checked(scope, [&] { emit_called_function(scope, bodies); });
  }
  out.append(bodies);
}

}  // namespace

KernelSource emit_kernel(const Module& module, const Function& written) {
  Reach written_functions{module, {}, {}};
  written_functions.visit(written);
  for (auto* f : written_functions.functions) ptx::check_operands(module, *f);
  const Function kernel = ptx::inline_synchronising(module, written);
  Reach reach{module, {}, {}};
  reach.visit(kernel);
  KernelSource source;
  KernelScope kernel_scope{module, {}, {}, {}};
  lay_out_shared(reach, kernel_scope, source);
  number_globals(reach, kernel_scope, source);
  for (size_t i = 1; i < reach.functions.size(); ++i)
    kernel_scope.function_index[reach.functions[i]->name] = (int)i;
  for (auto& [name, type] : kernel.registers)
    source.registers += type.bits == 64 ? 2 : type.kind != 'p';
  Code out;
  out.append_text(kKernelRuntime);
  if (has_matrix_instruction(kernel)) out.append_text(kMatrix);
  emit_called_functions(reach, kernel_scope, out);
  FunctionScope scope(kernel_scope, kernel);
  source.serial = !scope.flow.cross_lane;
  emit_checked(scope, [&] {
    if (source.serial)
      emit_serial_kernel(scope, out);
    else
      emit_lockstep_kernel(scope, out);
  });
  bool calls = reach.functions.size() > 1;
  source.local_bytes = scope.local_bytes() + (calls ? kCallStackBytes : 0);
  source.text = out.text();
  return source;
}

}  // namespace softgpu::emit
