// Sizes and offsets that are computed from values of clients.
//
// Thread safety: none is needed, a CheckedSize is a value.
#pragma once
#include <cstdint>

// A number of bytes or elements. A result that does not fit in 64 bits is not valid, and neither is
// anything that is computed from it.
class CheckedSize {
 public:
  constexpr CheckedSize(uint64_t value) : value_(value) {}

  constexpr bool valid() const { return valid_; }
  // Return the value; the largest number if it is not valid.
  constexpr uint64_t value() const { return valid_ ? value_ : UINT64_MAX; }
  // Return whether the value is valid and at most `limit`.
  constexpr bool within(CheckedSize limit) const {
    return valid_ && limit.valid_ && value_ <= limit.value_;
  }
  // Return the next multiple of a power of two.
  constexpr CheckedSize rounded_up(uint64_t power) const {
    CheckedSize sum = *this + (power - 1);
    sum.value_ &= ~(power - 1);
    return sum;
  }

  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    CheckedSize sum(0);
    sum.valid_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_) && a.valid_ && b.valid_;
    return sum;
  }
  friend constexpr CheckedSize operator-(CheckedSize a, CheckedSize b) {
    CheckedSize rest(0);
    rest.valid_ = !__builtin_sub_overflow(a.value_, b.value_, &rest.value_) && a.valid_ && b.valid_;
    return rest;
  }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    CheckedSize product(0);
    product.valid_ =
        !__builtin_mul_overflow(a.value_, b.value_, &product.value_) && a.valid_ && b.valid_;
    return product;
  }

 private:
  uint64_t value_;
  bool valid_ = true;
};

// Return the number of blocks of a grid, or of threads of a block; the largest number if it does
// not fit in 64 bits.
constexpr uint64_t volume(uint32_t x, uint32_t y, uint32_t z) {
  return (CheckedSize(x) * y * z).value();
}
