#include "softgpu/driver/handles.h"

#include "softgpu/driver/driver.h"

namespace softgpu {

bool is_live_as(const void* kind, const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  auto it = d->handles.find(h);
  return it != d->handles.end() && it->second == kind;
}

bool with_live_as(const void* kind, const void* h, const std::function<void()>& call) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  auto it = d->handles.find(h);
  if (it == d->handles.end() || it->second != kind) return false;
  call();
  return true;
}

void add_handle_as(const void* kind, const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  d->handles[h] = kind;
}

bool remove_handle_as(const void* kind, const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  auto it = d->handles.find(h);
  if (it == d->handles.end() || it->second != kind) return false;
  d->handles.erase(it);
  return true;
}

}  // namespace softgpu
