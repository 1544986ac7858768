// Checked memory accesses of kernels, as C.
//
// Access is the only producer of AddressText, and every load, store, atomic operation and copy of
// the generated C takes an AddressText. There are three checked forms: a single access; a group of
// accesses through one register, which one check covers; a row of accesses by consecutive threads.
// In the C, an address is a `struct Access`, which only the functions of device/runtime/access.h
// make. Patterns with a pointer do not compile; see code.h.
//
// Thread safety: none. The classes belong to one function of one kernel.
#pragma once
#include <string>

#include "softgpu/emit/address_text.h"
#include "softgpu/ptx/ir.h"

namespace softgpu::emit {

class FunctionScope;

// An access of an instruction through an address operand.
struct Place {
  const ptx::Operand& where;
  ptx::Space space;
  int bytes;                 // a power of two up to 32
  std::string displacement;  // C expression of bytes to add to the address; empty: none
};

// Several accesses of `bytes` bytes each through one register, at offsets from `low` to `high`.
struct GroupExtent {
  std::string base;  // register
  ptx::Space space;
  int64_t low, high;
  int bytes;
};

// Return a parameter's or local variable's address, of which a register of 32 bits holds the low
// half. Values of other state spaces are returned as they are.
std::string whole_address(ptx::Space space, const Expr& value);

class Access {
 public:
  // Return the address of an access. A constant offset outside of a parameter is refused; outside
  // of another variable, the access faults when it is reached. If a group or row covers the
  // instruction, return its part.
  static AddressText single(const FunctionScope& scope, const ptx::Instruction& ins,
                            const Place& place);
  // Return the bytes of parameter number `index` of a called function: every caller passes at least
  // as many bytes as the parameter has.
  static AddressText argument(size_t index, int bytes);

  // Append the check of a group as variable `name`. Return its range.
  static CheckedRange group(Code& out, const std::string& name, const FunctionScope& scope,
                            const GroupExtent& extent);

  // Append the check of a row as variable `name`: return 0 unless the addresses of the first,
  // second and last thread, which are elements `index` of `addresses`, lie on a line. Return the
  // access of thread `l`.
  static AddressText row(Code& out, const std::string& name, size_t index, int bytes);
};

}  // namespace softgpu::emit
