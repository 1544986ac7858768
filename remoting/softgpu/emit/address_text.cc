#include "softgpu/emit/address_text.h"

#include <stdexcept>

#include "softgpu/emit/types.h"

namespace softgpu::emit {

using ptx::Type;

std::string detail::piece(const AddressText& address) {
  return address.text_;
}

void AddressText::require(int offset, int bytes) const {
  if (offset < 0 || bytes < 0 || offset > bytes_ - bytes)
    throw std::out_of_range("an access is larger than its check");
}

AddressText AddressText::declare(Code& out, const std::string& name) const {
  out.add("Access {} = {}", name, *this);
  return {name, bytes_};
}

AddressText AddressText::part(int offset, int bytes) const {
  require(offset, bytes);
  return offset ? AddressText{render("part({}, {})", *this, offset), bytes}
                : AddressText{text_, bytes};
}

Expr AddressText::load(Type t, int offset, Ordering ordering) const {
  require(offset, t.bytes());
  if (ordering == Ordering::ordered)
    return expr(t, "LOAD_ORDERED({}, {}, {})", c_type(t), *this, offset);
  return expr(t, "LOAD({}, {}, {})", c_type(t), *this, offset);
}

void AddressText::store(Code& out, int offset, const Expr& value, Ordering ordering) const {
  require(offset, value.type.bytes());
  if (ordering == Ordering::ordered)
    out.add("STORE_ORDERED({}, {}, {}, {})", c_type(value.type), *this, offset, value);
  else
    out.add("STORE({}, {}, {}, {})", c_type(value.type), *this, offset, value);
}

AddressText CheckedRange::at(int64_t offset, int bytes) const {
  if (offset < low_ || bytes < 0 || offset > end_ - bytes)
    throw std::out_of_range("an access is outside of its group");
  return {render("part({}, {})", name_, offset - low_), bytes};
}

}  // namespace softgpu::emit
