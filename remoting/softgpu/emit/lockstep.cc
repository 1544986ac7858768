#include "softgpu/emit/lockstep.h"

#include <algorithm>

#include "softgpu/emit/access_groups.h"
#include "softgpu/emit/cross_lane.h"
#include "softgpu/emit/instructions.h"
#include "softgpu/emit/runtime_text.h"
#include "softgpu/emit/serial.h"

namespace softgpu::emit {

using ptx::Block;
using ptx::BlockKind;
using ptx::Instruction;

namespace {

constexpr int kGridBarrier = 16;  // its number; bar.sync has 0 to 15

class LockstepKernel {
 public:
  LockstepKernel(FunctionScope& scope, Code& out)
      : scope_(scope), out_(out), blocks_(scope.flow.blocks) {}
  void emit();

 private:
  void emit_warp_frame();
  void emit_members_function();
  void emit_run_warp();
  void emit_block(size_t b);
  void emit_sync_block(size_t b);
  void emit_lanes(size_t b);
  Code lane_body(size_t b);
  void emit_lane_instruction(size_t b, const Instruction& ins, Code& out);
  void emit_barrier_entry(const Instruction& ins, size_t b, Code& out);
  void emit_grid_barrier_entry(const Instruction& ins, size_t b, Code& out);
  void emit_whole_warp_barrier(size_t b);
  void emit_terminator(size_t b);
  void emit_reduction_result(size_t b);

  const Instruction& first_of(size_t b) const { return scope_.function.body[blocks_[b].first]; }
  bool is_reduction(size_t b) const {
    return blocks_[b].kind == BlockKind::barrier && first_of(b).has("red");
  }
  // The program counter at which the lanes of a barrier reduction read its result.
  size_t result_pc(size_t b) const { return b + blocks_.size(); }
  void next(size_t from, size_t to) { out_.add("JUMP({}, {})", from, to); }

  FunctionScope& scope_;
  Code& out_;
  const std::vector<Block>& blocks_;
  int groups_ = 0;  // numbered so far
};

void LockstepKernel::emit() {
  scope_.mode = FunctionScope::Mode::lockstep;
  size_t n = blocks_.size();
  out_.add("enum { PC_COUNT = {} }", 2 * n + 1);
  emit_warp_frame();
  std::string flags;
  for (auto& b : blocks_) flags += b.kind == BlockKind::sync ? "1," : "0,";
  out_.add("static const u8 is_sync[PC_COUNT] = {{}}", flags);
  emit_members_function();
  out_.append_text(kWarpSchedule);
  emit_run_warp();
  out_.append_text(kWarpLoop);
}

void LockstepKernel::emit_warp_frame() {
  auto frame = out_.block_with_tail("typedef struct Warp", " Warp;");
  out_.add(
      "u32 alive, bar_mask, schedules, bar_whole, bar_pc, lanes_at[PC_COUNT], bar_id[32], "
      "bar_count[32], bar_vote[32], bar_next[32], bar_sum[32], bar_total[32], index, x[32], y[32], "
      "z[32]");
  scope_.declare_frame_registers(out_);
}

// members(): the member mask of each sync block, for lane l.
void LockstepKernel::emit_members_function() {
  auto function = out_.block("MEMBERS_FUNCTION");
  {
    auto cases = out_.block("switch (b)");
    for (size_t b = 0; b < blocks_.size(); ++b)
      if (blocks_[b].kind == BlockKind::sync) {
        scope_.begin(first_of(b));
        out_.add("case {}: return {}", b, member_mask(scope_, first_of(b)));
      }
  }
  out_.add("return ~0u");
}

void LockstepKernel::emit_run_warp() {
  size_t n = blocks_.size();
  auto function = out_.block("WARP_FUNCTION");
  scope_.declare_constants(out_);
  out_.add("u32 mask, jumps = 0");
  out_.add("int pc");
  out_.add("schedule: pc = schedule(w, &mask)");
  {
    auto cases = out_.block("switch (pc)");
    out_.add("case -1: return");
    for (size_t b = 0; b < n; ++b) out_.add("case {}: goto L{}", b, b);
    for (size_t b = 0; b < n; ++b)
      if (is_reduction(b)) out_.add("case {}: goto L{}", result_pc(b), result_pc(b));
  }
  out_.add("w->alive &= ~mask");
  out_.add("goto schedule");
  for (size_t b = 0; b < n; ++b) emit_block(b);
  for (size_t b = 0; b < n; ++b)
    if (is_reduction(b)) emit_reduction_result(b);
  out_.add("L{}:; w->alive &= ~mask", n);
  out_.add("goto schedule");
}

void LockstepKernel::emit_block(size_t b) {
  out_.line("L{}:;", b);
  auto block = out_.block("");
  out_.add("u32 taken = 0");
  out_.add("(void)taken");
  if (blocks_[b].kind == BlockKind::sync) {
    emit_sync_block(b);
    next(b, b + 1);
    return;
  }
  emit_whole_warp_barrier(b);
  emit_lanes(b);
  emit_terminator(b);
}

// Emit the body twice: the C compiler vectorises the loop over all lanes.
void LockstepKernel::emit_lanes(size_t b) {
  Code body = lane_body(b);
  {
    auto whole = out_.block("if (mask == ~0u)");
    auto lanes = out_.block("for (u32 l = 0; l < 32; ++l)");
    out_.append(body);
  }
  auto lanes = out_.block("else for (u32 l = 0; l < 32; ++l) if (mask >> l & 1)");
  out_.append(body);
}

Code LockstepKernel::lane_body(size_t b) {
  const Block& block = blocks_[b];
  auto begin = scope_.function.body.begin();
  Code out;
  scope_.declare_stack(out, std::any_of(begin + (long)block.first, begin + (long)block.last,
                                        [](auto& ins) { return ins.op == "call"; }));
  scope_.declare_block_locals(out, block);
  auto declarations = group_accesses(scope_, block, groups_);
  for (size_t i = block.first; i < block.last; ++i) {
    if (auto it = declarations.find(i); it != declarations.end()) out.append(it->second);
    const Instruction& ins = scope_.function.body[i];
    scope_.begin(ins);
    if (ins.op == "bra" || ins.op == "ret" || ins.op == "exit") {
      scope_.end();
      if (!ins.guard.empty()) out.add("taken |= (u32)(({}) != 0) << l", scope_.predicate(ins));
      continue;
    }
    std::optional<Code::Block> guard;
    if (!ins.guard.empty()) guard.emplace(out.block("if ({})", scope_.predicate(ins)));
    emit_lane_instruction(b, ins, out);
  }
  return out;
}

void LockstepKernel::emit_lane_instruction(size_t b, const Instruction& ins, Code& out) {
  auto jump = [](Code& code, int block) {
    code.add("w->lanes_at[{}] |= 1u << l", block);
    code.add("taken |= 1u << l");
    code.add("break");
  };
  if (ptx::ends_block(ins)) scope_.end();
  if (ins.op == "trap")
    out.add("c->host->fault(c, FAULT_TRAP, 0)");
  else if (ins.op == "brx")
    emit_indexed_branch(scope_, ins, out, jump);
  else if (ptx::is_grid_barrier(ins))
    emit_grid_barrier_entry(ins, b, out);
  else if (blocks_[b].kind == BlockKind::barrier)
    emit_barrier_entry(ins, b, out);
  else
    emit_instruction(scope_, ins, out);
}

void LockstepKernel::emit_grid_barrier_entry(const Instruction& ins, size_t b, Code& out) {
  out.add("w->bar_id[l] = {}", kGridBarrier);
  out.add("w->bar_count[l] = w->bar_vote[l] = 0");
  out.add("w->bar_next[l] = {}", b + 1);
  out.add("taken |= 1u << l");
  for (auto& r : ins.call_returns)
    if (scope_.is_call_parameter(r.name))
      out.add("call_grid_barrier({})", scope_.parameter(r.name));
}

// bar.sync id{, threads}; bar.red.op d, id{, threads}, p
void LockstepKernel::emit_barrier_entry(const Instruction& ins, size_t b, Code& out) {
  bool reduction = ins.take("red");
  size_t first = reduction ? 1 : 0, n = ins.operands.size();
  std::string id = n > first ? scope_.read(ins.operands[first], kU32).text : "0";
  std::string count = "0", vote = "0";
  if (!reduction && n > 1) count = scope_.read(ins.operands[1], kU32).text;
  if (reduction && n > 3) count = scope_.read(ins.operands[2], kU32).text;
  if (reduction) vote = scope_.read(ins.operands.back(), kPredicate).text;
  out.add("w->bar_id[l] = {} & 15", id);
  out.add("w->bar_count[l] = {}", count);
  out.add("w->bar_vote[l] = {}", vote);
  out.add("w->bar_next[l] = {}", reduction ? result_pc(b) : b + 1);
  out.add("taken |= 1u << l");
  if (reduction) {
    (void)last_type(ins);
    if (!ins.take("popc") && !ins.take("and") && !ins.take("or")) scope_.refuse();
  }
  scope_.end();
}

// bar.sync with a constant id and no count, reached by all living lanes at once: one entry for the
// warp instead of one for each lane.
void LockstepKernel::emit_whole_warp_barrier(size_t b) {
  const Block& block = blocks_[b];
  if (block.kind != BlockKind::barrier || block.last != block.first + 1) return;
  const Instruction& ins = first_of(b);
  if (!ins.guard.empty() || ins.has("red") || ptx::is_grid_barrier(ins) || ins.operands.size() > 1)
    return;
  if (ins.operands.size() == 1 &&
      (ins.operands[0].kind != ptx::OperandKind::integer || ins.operands[0].bits > 15))
    return;
  uint64_t id = ins.operands.empty() ? 0 : ins.operands[0].bits;
  auto whole = out_.block("if (mask == w->alive && !w->bar_mask)");
  out_.add("w->bar_mask = mask");
  out_.add("w->bar_whole = {}", id + 1);
  out_.add("w->bar_pc = {}", b + 1);
  out_.add("goto schedule");
}

void LockstepKernel::emit_terminator(size_t b) {
  const Block& block = blocks_[b];
  if (block.kind == BlockKind::barrier) {
    out_.add("w->bar_mask |= taken");
    out_.add("mask &= ~taken");
    out_.add("if (!mask) goto schedule");
    return next(b, b + 1);
  }
  const Instruction* end =
      block.last > block.first ? &scope_.function.body[block.last - 1] : nullptr;
  if (!end || !ptx::ends_block(*end) || end->op == "trap") return next(b, b + 1);
  bool guarded = !end->guard.empty();
  if (end->op == "brx" && !guarded) {
    out_.add("goto schedule");
  } else if (end->op == "brx") {
    out_.add("mask &= ~taken");
    out_.add("if (!mask) goto schedule");
    next(b, b + 1);
  } else if (end->op == "bra") {
    size_t target = (size_t)scope_.flow.label_block.at(end->operands.back().name);
    if (!guarded) return next(b, target);
    out_.add("BRANCH({}, {}, {})", b, target, b + 1);
  } else if (!guarded) {
    out_.add("w->alive &= ~mask");
    out_.add("goto schedule");
  } else {
    out_.add("w->alive &= ~taken");
    out_.add("mask &= ~taken");
    out_.add("if (!mask) goto schedule");
    next(b, b + 1);
  }
}

// One instruction that exchanges values: once for each group of lanes with the same member mask.
void LockstepKernel::emit_sync_block(size_t b) {
  const Instruction& ins = first_of(b);
  scope_.begin(ins);
  out_.add("u32 todo = mask");
  if (!ins.guard.empty()) {
    auto block = out_.block("");
    out_.add("u32 on = 0");
    out_.add("for (u32 l = 0; l < 32; ++l) if (mask >> l & 1) on |= (u32)(({}) != 0) << l",
             scope_.predicate(ins));
    out_.add("todo &= on");
  }
  auto groups = out_.block("while (todo)");
  out_.add("u32 l0 = (u32)__builtin_ctz(todo)");
  out_.add("u32 g = members(w, {}, l0) & todo", b);
  out_.add("if (!g) g = 1u << l0");
  out_.add("todo &= ~g");
  emit_exchange(scope_, ins, out_);
}

void LockstepKernel::emit_reduction_result(size_t b) {
  const Instruction& ins = first_of(b);
  scope_.begin(ins);
  Expr result = ins.has("popc")  ? Expr{"w->bar_sum[l]", kU32}
                : ins.has("and") ? Expr{"w->bar_sum[l] == w->bar_total[l]", kPredicate}
                                 : Expr{"w->bar_sum[l] != 0", kPredicate};
  out_.line("L{}:;", result_pc(b));
  auto block = out_.block("");
  {
    auto lanes = out_.block("for (u32 l = 0; l < 32; ++l) if (mask >> l & 1)");
    scope_.assign(out_, ins.operands[0], result);
  }
  next(b, b + 1);
}

}  // namespace

void emit_lockstep_kernel(FunctionScope& scope, Code& out) {
  LockstepKernel(scope, out).emit();
}

}  // namespace softgpu::emit
