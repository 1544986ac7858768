// Basic blocks of a function, and the blocks that all lanes of a warp must execute together.
#pragma once
#include <set>
#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

enum class BlockKind {
  plain,    // lanes are independent of each other
  sync,     // one instruction that exchanges values between the lanes of its member mask
  barrier,  // one instruction at which lanes wait for other warps
};

struct Block {
  BlockKind kind = BlockKind::plain;
  size_t first = 0, last = 0;  // instructions [first, last)
};

struct ControlFlow {
  std::vector<Block> blocks;
  std::map<std::string, int> label_block;  // label to its block
  std::set<std::string> local_registers;   // live inside one block only
  bool cross_lane = false;                 // it has sync or barrier blocks, or needs lockstep

  // Return the block that starts at or after an instruction; blocks.size(): the function's end.
  int block_at(size_t instruction) const;
};

bool is_grid_barrier(const Instruction& ins);  // a call of cudaCGSynchronize
bool is_barrier(const Instruction& ins);
bool is_sync(const Instruction& ins);
bool needs_lockstep(const Function& f);   // a thread may wait for another one
bool ends_block(const Instruction& ins);  // bra, brx, ret, exit, trap

ControlFlow analyse(const Function& f);

// Return every register that an instruction names, with repetitions.
std::vector<std::string> registers_of(const Function& f, const Instruction& ins);

}  // namespace softgpu::ptx
