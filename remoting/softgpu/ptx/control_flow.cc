#include "softgpu/ptx/control_flow.h"

#include <algorithm>

namespace softgpu::ptx {

bool is_grid_barrier(const Instruction& ins) {
  return ins.op == "call" && !ins.operands.empty() && ins.operands[0].name == "cudaCGSynchronize";
}

bool is_barrier(const Instruction& ins) {
  if (is_grid_barrier(ins)) return true;
  if (ins.op != "bar" && ins.op != "barrier") return false;
  if (ins.has("warp") || ins.has("arrive") || ins.has("cluster")) return false;
  return true;
}

bool is_sync(const Instruction& ins) {
  if (ins.op == "bar" && ins.has("warp")) return true;
  return ins.op == "shfl" || ins.op == "vote" || ins.op == "match" || ins.op == "redux" ||
         ins.op == "mma" || ins.op == "ldmatrix" || ins.op == "stmatrix" || ins.op == "wmma" ||
         ins.op == "elect" || ins.op == "movmatrix";
}

bool ends_block(const Instruction& ins) {
  return ins.op == "bra" || ins.op == "brx" || ins.op == "ret" || ins.op == "exit" ||
         ins.op == "trap";
}

static void collect(const Function& f, const Operand& o, std::vector<std::string>& out) {
  if (!o.name.empty() && f.registers.count(o.name)) out.push_back(o.name);
  for (auto& e : o.elements) collect(f, e, out);
}

std::vector<std::string> registers_of(const Function& f, const Instruction& ins) {
  std::vector<std::string> out;
  if (!ins.guard.empty()) out.push_back(ins.guard);
  for (auto& o : ins.operands) collect(f, o, out);
  for (auto& o : ins.call_returns) collect(f, o, out);
  for (auto& o : ins.call_arguments) collect(f, o, out);
  return out;
}

int ControlFlow::block_at(size_t instruction) const {
  for (size_t b = 0; b < blocks.size(); ++b)
    if (blocks[b].first >= instruction) return (int)b;
  return (int)blocks.size();
}

// In shared memory, or where it may be shared memory.
static bool is_volatile(const Instruction& ins) {
  return (ins.op == "ld" || ins.op == "st") && ins.has("volatile") && !ins.has("global") &&
         !ins.has("local");
}

static std::set<size_t> leaders(const Function& f) {
  std::set<size_t> starts = {0, f.body.size()};
  for (auto& [name, at] : f.labels) starts.insert(at);
  for (size_t i = 0; i < f.body.size(); ++i) {
    if (ends_block(f.body[i])) starts.insert(i + 1);
    if (is_sync(f.body[i]) || is_barrier(f.body[i])) {
      starts.insert(i);
      starts.insert(i + 1);
    }
    if (is_volatile(f.body[i])) starts.insert(i);  // every lane has done what stands before it
  }
  return starts;
}

// Threads may run to their end one after the other unless one can wait for another: by a barrier in
// memory, or in a loop around an ordered access. Nor when they hand values to one another through
// volatile shared memory, as reductions of the days before __syncwarp do in their last warp.
bool needs_lockstep(const Function& f) {
  bool loops = false, ordered = false, handed_over = false, taken = false;
  for (size_t i = 0; i < f.body.size(); ++i) {
    const Instruction& ins = f.body[i];
    if (ins.op == "activemask" || ins.op == "mbarrier") return true;
    if (ins.op == "bra" && !ins.operands.empty())
      if (auto it = f.labels.find(ins.operands.back().name); it != f.labels.end())
        loops |= it->second <= i;
    ordered |= ins.op == "ld" && (ins.has("volatile") || ins.has("acquire") || ins.has("relaxed"));
    handed_over |= ins.op == "st" && is_volatile(ins);
    taken |= ins.op == "ld" && is_volatile(ins);
    ordered |= ins.op == "atom" && (ins.has("cas") || ins.has("exch"));
  }
  return (loops && ordered) || (handed_over && taken);
}

static void split(const Function& f, ControlFlow& flow) {
  flow.cross_lane = needs_lockstep(f);
  auto starts = leaders(f);
  for (auto it = starts.begin(); std::next(it) != starts.end(); ++it) {
    Block b{BlockKind::plain, *it, *std::next(it)};
    if (is_barrier(f.body[b.first]))
      b.kind = BlockKind::barrier;
    else if (is_sync(f.body[b.first]))
      b.kind = BlockKind::sync;
    if (b.kind != BlockKind::plain) flow.cross_lane = true;
    flow.blocks.push_back(b);
  }
  for (auto& [name, at] : f.labels) flow.label_block[name] = flow.block_at(at);
}

ControlFlow analyse(const Function& f) {
  ControlFlow flow;
  split(f, flow);
  std::map<std::string, int> seen;  // register to its only block, or -1
  for (size_t b = 0; b < flow.blocks.size(); ++b)
    for (size_t i = flow.blocks[b].first; i < flow.blocks[b].last; ++i)
      for (auto& r : registers_of(f, f.body[i])) {
        auto [it, fresh] = seen.emplace(r, (int)b);
        if ((!fresh && it->second != (int)b) || flow.blocks[b].kind != BlockKind::plain)
          it->second = -1;
      }
  // A register of one block may still carry a value round a loop: it is local only if its first
  // mention writes it.
  for (auto& [name, block] : seen) {
    if (block < 0) continue;
    const auto& first = flow.blocks[(size_t)block];
    for (size_t i = first.first; i < first.last; ++i) {
      auto names = registers_of(f, f.body[i]);
      size_t mentions = (size_t)std::count(names.begin(), names.end(), name);
      if (!mentions) continue;
      const auto& ins = f.body[i];
      bool writes = ins.guard.empty() && ins.op != "st" && ins.op != "red" &&
                    !ins.operands.empty() && mentions == 1;
      if (writes) {
        std::vector<std::string> destination;
        collect(f, ins.operands[0], destination);
        writes = ins.operands[0].kind != OperandKind::address &&
                 std::count(destination.begin(), destination.end(), name) == 1;
      }
      if (writes) flow.local_registers.insert(name);
      break;
    }
  }
  return flow;
}

}  // namespace softgpu::ptx
