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

// Volatile, and in shared memory or at a generic address.
static bool is_volatile(const Instruction& ins) {
  return (ins.op == "ld" || ins.op == "st") && ins.has("volatile") && !ins.has("global") &&
         !ins.has("local");
}

// Return the first instructions of all basic blocks, and the end.
static std::set<size_t> leaders(const Function& f) {
  std::set<size_t> starts = {0, f.body.size()};
  for (auto& [name, at] : f.labels) starts.insert(at);
  for (size_t i = 0; i < f.body.size(); ++i) {
    if (ends_block(f.body[i])) starts.insert(i + 1);
    if (is_sync(f.body[i]) || is_barrier(f.body[i])) {
      starts.insert(i);
      starts.insert(i + 1);
    }
    if (is_volatile(f.body[i])) starts.insert(i);  // all lanes reach it before any continues
  }
  return starts;
}

// Threads run to their end one after the other unless one can wait for another: at an mbarrier, or
// in a loop with an ordered access. They also need lockstep if they exchange values through
// volatile shared memory, as reductions written before __syncwarp do in their last warp.
bool needs_lockstep(const Function& f) {
  bool loops = false, ordered = false, stores = false, loads = false;
  for (size_t i = 0; i < f.body.size(); ++i) {
    const Instruction& ins = f.body[i];
    if (ins.op == "activemask" || ins.op == "mbarrier") return true;
    if (ins.op == "bra" && !ins.operands.empty())
      if (auto it = f.labels.find(ins.operands.back().name); it != f.labels.end())
        loops |= it->second <= i;
    ordered |= ins.op == "ld" && (ins.has("volatile") || ins.has("acquire") || ins.has("relaxed"));
    stores |= ins.op == "st" && is_volatile(ins);
    loads |= ins.op == "ld" && is_volatile(ins);
    ordered |= ins.op == "atom" && (ins.has("cas") || ins.has("exch"));
  }
  return (loops && ordered) || (stores && loads);
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

// Map each register that one plain block alone names to this block.
static std::map<std::string, int> single_blocks(const Function& f, const ControlFlow& flow) {
  constexpr int kSeveral = -1;
  std::map<std::string, int> block_of;
  for (size_t b = 0; b < flow.blocks.size(); ++b)
    for (size_t i = flow.blocks[b].first; i < flow.blocks[b].last; ++i)
      for (auto& r : registers_of(f, f.body[i])) {
        auto [it, inserted] = block_of.emplace(r, (int)b);
        if ((!inserted && it->second != (int)b) || flow.blocks[b].kind != BlockKind::plain)
          it->second = kSeveral;
      }
  std::erase_if(block_of, [](auto& entry) { return entry.second == kSeveral; });
  return block_of;
}

// Return whether the instruction always writes `name` and does not read it.
static bool only_writes(const Function& f, const Instruction& ins, const std::string& name) {
  if (!ins.guard.empty() || ins.op == "st" || ins.op == "red" || ins.operands.empty() ||
      ins.operands[0].kind == OperandKind::address)
    return false;
  std::vector<std::string> all = registers_of(f, ins), destination;
  collect(f, ins.operands[0], destination);
  return std::count(all.begin(), all.end(), name) == 1 &&
         std::count(destination.begin(), destination.end(), name) == 1;
}

// A register of one block may still carry a value around a loop: it is local only if the block
// writes it before it reads it.
static bool is_written_first(const Function& f, const Block& block, const std::string& name) {
  for (size_t i = block.first; i < block.last; ++i) {
    auto names = registers_of(f, f.body[i]);
    if (std::count(names.begin(), names.end(), name)) return only_writes(f, f.body[i], name);
  }
  return false;
}

ControlFlow analyse(const Function& f) {
  ControlFlow flow;
  split(f, flow);
  for (auto& [name, block] : single_blocks(f, flow))
    if (is_written_first(f, flow.blocks[(size_t)block], name)) flow.local_registers.insert(name);
  return flow;
}

}  // namespace softgpu::ptx
