// Registry of live objects. A handle is the address of an object of the driver; programs may pass
// any value, so each handle is looked up, with the type of its object, before it is used: the
// address of an object that was freed may be that of one of another type.
//
// A thread of a kernel that uses an object while another thread destroys it takes a copy of it:
// destruction waits for the work of one context only.
//
// Thread safety: every function takes Driver::mutex; callers must not hold it. kind_of takes none.
#pragma once
#include <functional>
#include <optional>
#include <type_traits>

namespace softgpu {

template <typename T>
inline char g_kind_of;
// Return a value that identifies a type.
template <typename T>
const void* kind_of() {
  static_assert(requires { alignof(T); }, "not CUgraph and the like, which programs see");
  return &g_kind_of<std::remove_cv_t<T>>;
}

bool is_live_as(const void* kind, const void* handle);
// Call a function while the object cannot be removed. Return false if the handle is not live.
bool with_live_as(const void* kind, const void* handle, const std::function<void()>& call);
void add_handle_as(const void* kind, const void* handle);
bool remove_handle_as(const void* kind, const void* handle);

template <typename T>
bool is_live(const T* handle) {
  return is_live_as(kind_of<T>(), handle);
}
template <typename T>
std::optional<T> copy_of(const T* handle) {
  std::optional<T> copy;
  with_live_as(kind_of<T>(), handle, [&] { copy = *handle; });
  return copy;
}
template <typename T>
void add_handle(const T* handle) {
  add_handle_as(kind_of<T>(), handle);
}
// Return false if the handle was not live.
template <typename T>
bool remove_handle(const T* handle) {
  return remove_handle_as(kind_of<T>(), handle);
}

}  // namespace softgpu
