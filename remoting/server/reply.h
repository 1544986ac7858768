// Writes the body of a reply.
#pragma once
#include <string>
#include <type_traits>

namespace busbar::server {

template <typename T>
void append(std::string& out, T v) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append((const char*)&v, sizeof v);
}

}  // namespace busbar::server
