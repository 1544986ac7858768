// The table of operands of instructions.
#pragma once
#include <optional>
#include <string>

#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

// The operands of an opcode that has all modifiers of `mods`, separated by blanks. Each operand is
// a word: a `=` for a destination, a letter for its type, and suffixes.
//
//   T F   the last and the first type of the instruction      W     twice as wide as T
//   I B   32 bits: an integer; without a type                 L     an integer of 64 bits
//   P     a predicate                                         N     an integer constant
//   A     an integer of 32 or 64 bits                         M     an address in brackets
//   J     an integer of 32 bits or a predicate                f     a float of 32 bits
//   S     an address of shared memory in brackets             X     checked by the emitter
//
//   ?     it may be left out                                  _     `_` in place of a destination
//   |     a predicate may follow a bar                        r     the register may be wider
//   s     a special register                                  y     a variable or function
//   v     a vector that has the bits of the type              e     a vector of .v2, .v4 or .v8
//   c     no constant
struct OperandRow {
  const char* mods;
  const char* operands;
};

// Return the operands of an instruction, or null if it has no row.
const char* operand_row(const Instruction& ins);

}  // namespace softgpu::ptx
