#include "softgpu/driver/handles.h"

#include "softgpu/driver/driver.h"

namespace softgpu {

bool is_live(const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  return d->handles.count(h) > 0;
}
void add_handle(const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  d->handles.insert(h);
}
bool remove_handle(const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  return d->handles.erase(h) > 0;
}

}  // namespace softgpu
