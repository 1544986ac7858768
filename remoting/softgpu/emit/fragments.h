// Fragments of matrices: the registers of all lanes, gathered in arrays of C for
// device/runtime/matrix.h.
#pragma once
#include "softgpu/emit/scope.h"

namespace softgpu::emit {

// An element type of A and B.
struct Element {
  const char* kind;  // in device/runtime/matrix.h
  int per_register;
  bool is_integer = false;
  bool in_byte = false;     // a float of 8, 6 or 4 bits in a byte
  bool needs_kind = false;  // instructions with it name a .kind
};
// Return the element type of a modifier, or null.
const Element* element_of(const std::string& word);

// Open a loop over the lanes l of a warp.
Code::Block for_all_lanes(Code& out);

// Return the number of registers of a fragment, and one of them.
int registers_in(const ptx::Operand& o);
const ptx::Operand& register_of(ptx::Operand&&, int) = delete;  // it would outlive its operand
const ptx::Operand& register_of(const ptx::Operand& o, int i);

// Append the assignment of lane l's registers to array[l], inside a loop over the lanes.
void gather(const FunctionScope& scope, const char* array, const ptx::Operand& from, ptx::Type t,
            Code& out);
// Append the assignment of array[l] to the registers of each lane.
void scatter(const FunctionScope& scope, const char* array, const ptx::Operand& to, ptx::Type t,
             Code& out);

// Reject an operand that is no vector of `expected` registers of the type, or of bits.
void check_registers(const FunctionScope& scope, const ptx::Operand& o, int expected,
                     ptx::Type type);

}  // namespace softgpu::emit
