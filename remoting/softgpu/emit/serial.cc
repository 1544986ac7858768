#include "softgpu/emit/serial.h"

#include "softgpu/emit/access.h"
#include "softgpu/emit/access_groups.h"
#include "softgpu/emit/calls.h"
#include "softgpu/emit/instructions.h"
#include "softgpu/emit/row_mode.h"
#include "softgpu/emit/runtime_text.h"

namespace softgpu::emit {

using ptx::Instruction;

namespace {

// The storage of a register.
ptx::Type bits_of(ptx::Type t) {
  return {'u', t.bits};
}

AddressText argument(ptx::Type t, size_t index) {
  return Access::argument(index, t.bytes());
}

void emit_goto(Code& out, int block) {
  out.add("goto L{}", block);
}

void emit_unguarded(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (ptx::ends_block(ins)) scope.end();
  if (ins.op == "bra")
    emit_goto(out, scope.flow.label_block.at(ins.operands.back().name));
  else if (ins.op == "ret" || ins.op == "exit")
    out.add("goto done");
  else if (ins.op == "trap")
    out.add("c->host->fault(c, FAULT_TRAP, 0)");
  else if (ins.op == "brx")
    emit_indexed_branch(scope, ins, out, emit_goto);
  else
    emit_instruction(scope, ins, out);
}

void emit_blocks(FunctionScope& scope, Code& out) {
  const auto& blocks = scope.flow.blocks;
  int groups = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    out.line("L{}:;", b);
    auto declarations = group_accesses(scope, blocks[b], groups);
    for (size_t i = blocks[b].first; i < blocks[b].last; ++i) {
      if (auto it = declarations.find(i); it != declarations.end()) out.append(it->second);
      const Instruction& ins = scope.function.body[i];
      scope.begin(ins);
      if (ptx::is_sync(ins) || ptx::is_barrier(ins)) scope.refuse("it is in a called function");
      std::optional<Code::Block> guard;
      if (!ins.guard.empty()) guard.emplace(out.block("if ({})", scope.predicate(ins)));
      emit_unguarded(scope, ins, out);
    }
  }
  out.line("L{}:;", blocks.size());
}

}  // namespace

void emit_indexed_branch(FunctionScope& scope, const Instruction& ins, Code& out,
                         void (*jump)(Code& out, int block)) {
  auto it = scope.function.branch_targets.find(ins.operands.at(1).name);
  if (it == scope.function.branch_targets.end()) scope.reject("unknown list of targets");
  auto block = out.block("switch ({})", scope.read(ins.operands[0], kU32));
  for (size_t i = 0; i < it->second.size(); ++i) {
    auto label = scope.flow.label_block.find(it->second[i]);
    if (label == scope.flow.label_block.end()) scope.reject("unknown label " + it->second[i]);
    out.line("case {}:", i);
    jump(out, label->second);
  }
  out.add("default: c->host->fault(c, FAULT_TRAP, 0)");
}

void emit_called_function(FunctionScope& scope, Code& out) {
  const ptx::Function& f = scope.function;
  scope.mode = FunctionScope::Mode::called;
  auto body = out.block("{}", prototype(scope));
  out.add("(void)t");
  out.add("if (++t->depth > 200 || lp + {} > t->local_end) c->host->fault(c, FAULT_STACK, 0)",
          scope.local_bytes());
  out.add("const Constants k = constants(c)");
  out.add("(void)k");
  scope.declare_registers(out);
  size_t arg = f.returns.size();
  for (auto& p : f.params) {
    if (p.space == ptx::Space::reg)
      out.add("{} = {}", scope.reg(p.name),
              argument(p.type, arg).load(bits_of(p.type), 0, Ordering::none));
    ++arg;
  }
  emit_blocks(scope, out);
  out.line("done:;");
  arg = 0;
  for (auto& p : f.returns) {
    if (p.space == ptx::Space::reg)
      argument(p.type, arg)
          .store(out, 0, {scope.reg(p.name).text, bits_of(p.type)}, Ordering::none);
    ++arg;
  }
  out.add("--t->depth");
}

void emit_serial_kernel(FunctionScope& scope, Code& out) {
  scope.mode = FunctionScope::Mode::serial;
  bool row_mode = emit_row_function(scope, out);
  out.append_text(kSerialLoop);
  auto kernel = out.block("KERNEL_FUNCTION");
  scope.declare_constants(out);
  {
    auto thread = out.block("{}", row_mode ? "FOR_EACH_ROW" : "FOR_EACH_THREAD");
    scope.declare_registers(out);
    scope.declare_stack(out, false);
    emit_blocks(scope, out);
    out.line("done:;");
  }
  out.add("return CTA_DONE");
}

}  // namespace softgpu::emit
