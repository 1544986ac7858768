// The C of checked addresses, and of the loads and stores that use them.
//
// Access is the only producer; see access.h. In the C, an address is a `struct Access`.
//
// Thread safety: none. The classes belong to one function of one kernel.
#pragma once
#include <string>

#include "softgpu/emit/code.h"

namespace softgpu::emit {

enum class Ordering { none, ordered };  // ordered: volatile, relaxed, acquire or release

// The C of a checked address, and the number of bytes that its check covers.
class AddressText {
 public:
  int bytes() const { return bytes_; }

  // Append the declaration of variable `name` with this address. Return the variable.
  AddressText declare(Code& out, const std::string& name) const;
  // Return the address of `bytes` bytes at `offset`. Throws std::out_of_range if the check does not
  // cover them.
  AddressText part(int offset, int bytes) const;
  // Return the value of type `t` at `offset`.
  Expr load(ptx::Type t, int offset, Ordering ordering) const;
  // Append the assignment of `value` to the place at `offset`.
  void store(Code& out, int offset, const Expr& value, Ordering ordering) const;

 private:
  friend class Access;
  friend class CheckedRange;
  friend std::string detail::piece(const AddressText& address);
  AddressText(std::string text, int bytes) : text_(std::move(text)), bytes_(bytes) {}
  void require(int offset, int bytes) const;

  std::string text_;
  int bytes_;
};

// A range of addresses that one check covers.
class CheckedRange {
 public:
  // Return the access of `bytes` bytes at `offset` from the base register. Throws std::out_of_range
  // if the range does not cover it.
  AddressText at(int64_t offset, int bytes) const;

 private:
  friend class Access;
  CheckedRange(std::string name, int64_t low, int64_t end)
      : name_(std::move(name)), low_(low), end_(end) {}

  std::string name_;
  int64_t low_, end_;  // offsets from the base register
};

}  // namespace softgpu::emit
