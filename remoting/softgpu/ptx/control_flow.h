// Splits a function into blocks and says which need all lanes of a warp together.
#pragma once
#include <set>
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

enum class BlockKind {
  plain,    // each lane runs it on its own
  sync,     // one instruction that exchanges values between the lanes of its member mask
  barrier,  // one instruction at which the lanes wait for other warps
};

struct Block {
  BlockKind kind = BlockKind::plain;
  size_t first = 0, last = 0;  // instructions [first, last)
};

struct ControlFlow {
  std::vector<Block> blocks;
  std::map<std::string, int> label_block;
  std::set<std::string>
      local_registers;      // live inside one block only: plain C variables of the lane loop
  bool cross_lane = false;  // any sync or barrier block

  // The block that starts at or after an instruction; blocks.size() means the end of the function.
  int block_at(size_t instruction) const;
};

bool is_grid_barrier(const Instruction& ins);  // the driver's cudaCGSynchronize
bool is_barrier(const Instruction& ins);
bool is_sync(const Instruction& ins);
bool needs_lockstep(const Function& f);   // one of its threads may wait for another
bool ends_block(const Instruction& ins);  // bra, brx, ret, exit, trap

ControlFlow analyse(const Function& f);

// Every register that an instruction names, with repeats.
std::vector<std::string> registers_of(const Function& f, const Instruction& ins);

}  // namespace softgpu::ptx
