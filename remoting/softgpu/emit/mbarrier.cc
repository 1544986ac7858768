// mbarrier: a counter in shared memory that changes its phase when all arrivals, and all expected
// bytes, are there.
#include "softgpu/emit/access.h"
#include "softgpu/emit/instructions.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::OperandKind;

namespace {

// An instruction with the index of its address operand; the checked address is the variable `m`.
struct Mbarrier {
  const FunctionScope& scope;
  const Instruction& ins;
  size_t at;

  // Return the i-th operand behind the address, or `fallback` if there is none.
  std::string value(size_t i, const char* fallback) const {
    return at + i < ins.operands.size() ? scope.read(ins.operands[at + i], kU32).text : fallback;
  }
};

void emit_arrive(const Mbarrier& m, bool drop, Code& out) {
  bool expects = m.ins.take("expect_tx");
  if (expects) out.add("mbarrier_expect(m, {})", m.value(1, "0"));
  Expr call =
      expr(kU64, "mbarrier_arrive(m, {}, {})", expects ? "1" : m.value(1, "1"), drop ? 1 : 0);
  if (m.at)
    m.scope.assign(out, m.ins.operands[0], call);
  else
    out.add("(void){}", call);
}

void emit_wait(const Mbarrier& m, Code& out) {
  if (!m.at) m.scope.reject("it has no destination");
  std::string phase = m.ins.take("parity")
                          ? render("{} & 1", m.value(1, "0"))
                          : render("{} >> 63", m.scope.read(m.ins.operands.at(m.at + 1), kU64));
  out.add("u8 over = mbarrier_phase(m) != ({})", phase);
  m.scope.assign(out, m.ins.operands[0], {"over", kPredicate});
  // Other warps must run before the phase can change: yield soon.
  if (m.scope.mode == FunctionScope::Mode::lockstep)
    out.add("if (!over) jumps += YIELD_JUMPS / 64");
}

}  // namespace

void emit_mbarrier(FunctionScope& scope, const Instruction& ins, Code& out) {
  if (ins.mods.empty()) scope.refuse();
  const std::string& operation = ins.take_at(0);
  if (last_type(ins) != kB64) scope.refuse();
  if (operation == "pending_count") {
    scope.assign(out, ins.operands.at(0),
                 expr(kU32, "mbarrier_pending({})", scope.read(ins.operands.at(1), kU64)));
    return;
  }
  size_t at = 0;
  while (at < ins.operands.size() && ins.operands[at].kind != OperandKind::address) ++at;
  if (at == ins.operands.size()) scope.reject("it needs an address");
  Mbarrier m{scope, ins, at};
  auto block = out.block("");
  Access::single(scope, ins, {ins.operands[at], state_space(ins), 8, ""}).declare(out, "m");
  if (operation == "init")
    out.add("mbarrier_init(m, {})", m.value(1, "1"));
  else if (operation == "inval")
    out.add("mbarrier_inval(m)");
  else if (operation == "expect_tx")
    out.add("mbarrier_expect(m, {})", m.value(1, "0"));
  else if (operation == "complete_tx")
    out.add("mbarrier_expect(m, -{})", m.value(1, "0"));
  else if (operation == "arrive" || operation == "arrive_drop")
    emit_arrive(m, operation == "arrive_drop", out);
  else if (operation == "test_wait" || operation == "try_wait")
    emit_wait(m, out);
  else
    scope.refuse();
}

}  // namespace softgpu::emit
