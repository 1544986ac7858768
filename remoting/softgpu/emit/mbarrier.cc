// mbarrier: a counter in shared memory that changes its phase when all arrivals, and all bytes that
// were announced, are there.
#include "softgpu/emit/emitter.h"

namespace softgpu::emit {

using ptx::Instruction;
using ptx::Operand;
using ptx::OperandKind;

static const ptx::Type kU32{'u', 32};
static const ptx::Type kU64{'u', 64};

static ptx::Space space_of(const Instruction& ins) {
  for (auto& m : ins.mods)
    if (m.rfind("shared", 0) == 0) return ptx::Space::shared;
  return ptx::Space::none;
}

bool FunctionEmitter::mbarrier(const Instruction& ins, std::string& out) {
  if (ins.op != "mbarrier" || ins.mods.empty()) return false;
  const std::string& what = ins.mods[0];
  if (what == "pending_count") {
    out +=
        write(ins.operands.at(0), kU32, "mbarrier_pending(" + read(ins.operands.at(1), kU64) + ")");
    return true;
  }
  size_t at = 0;
  while (at < ins.operands.size() && ins.operands[at].kind != OperandKind::address) ++at;
  if (at == ins.operands.size()) refuse(ins, "it needs an address");
  auto value = [&](size_t i, const char* otherwise) {
    return at + i < ins.operands.size() ? read(ins.operands[at + i], kU32) : std::string(otherwise);
  };
  out += "{ u64* m = (u64*)" + address(ins, ins.operands[at], space_of(ins), 8) + ";\n";
  if (what == "init")
    out += "mbarrier_init(m, " + value(1, "1") + ");\n";
  else if (what == "inval")
    out += "*m = 0;\n";
  else if (what == "expect_tx")
    out += "mbarrier_expect(m, " + value(1, "0") + ");\n";
  else if (what == "complete_tx")
    out += "mbarrier_expect(m, -" + value(1, "0") + ");\n";
  else if (what == "arrive" || what == "arrive_drop") {
    if (ins.has("expect_tx")) out += "mbarrier_expect(m, " + value(1, "0") + ");\n";
    std::string count = ins.has("expect_tx") ? "1" : value(1, "1");
    std::string call = "mbarrier_arrive(m, " + count + ", " + (what == "arrive" ? "0" : "1") + ")";
    out += at ? write(ins.operands[0], kU64, call) : "(void)" + call + ";\n";
  } else if (what == "test_wait" || what == "try_wait") {
    if (!at) refuse(ins, "it has no destination");
    std::string phase =
        ins.has("parity") ? value(1, "0") + " & 1" : read(ins.operands.at(at + 1), kU64) + " >> 63";
    out += "u8 over = (*m >> 63) != (" + phase + ");\n" + write(ins.operands[0], {'p', 8}, "over");
    if (mode_ == Mode::lanes)
      out += "if (!over) jumps += YIELD_JUMPS / 64;\n";  // other warps are to arrive: let them run
                                                         // soon
  } else
    refuse(ins);
  out += "}\n";
  return true;
}

}  // namespace softgpu::emit
