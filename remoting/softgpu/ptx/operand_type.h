// The types of operands, and the registers and constants that they take.
#pragma once
#include <string>

#include "softgpu/ptx/ir.h"

namespace softgpu::ptx {

// A type of an instruction. Its kind is one of "b u s f p", or
//   h  .f16: registers of .b16 and .f16      x  other packed or small floats: registers of .b
struct OperandType {
  char kind = 'b';
  int bits = 32;

  // `word` is a modifier for which is_type() holds.
  explicit OperandType(const std::string& word);
  static bool is_type(const std::string& word);

  bool is_float() const { return kind == 'f' || kind == 'h' || kind == 'x'; }
  // Return whether a register of type `own` holds a value of this type.
  bool matches(const Type& own) const;
  // As matches(), but the register may be wider, as those of ld, st and cvt.
  bool fits_in(const Type& own) const;
  bool takes_integer() const { return !is_float(); }
  // A bit type takes a literal of its size.
  bool takes_real(bool is_double) const {
    return kind == 'f' || (kind == 'b' && bits == (is_double ? 64 : 32));
  }
};

// Return the state space of address number `address` of an instruction, or Space::none: the
// modifiers name one for each address, or one for all.
Space space_of(const Instruction& ins, size_t address = 0);

}  // namespace softgpu::ptx
