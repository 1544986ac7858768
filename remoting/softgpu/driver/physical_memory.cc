#include "softgpu/driver/physical_memory.h"

#include <unistd.h>

#include "softgpu/driver/driver.h"

namespace softgpu {

void release_physical_memory(PhysicalMemory* m) {
  {
    std::lock_guard lock(driver()->mutex);
    if (--m->references) return;
  }
  close(m->fd);
  if (!m->imported) device_at(m->ordinal)->engine->refund(m->bytes);
  delete m;
}

}  // namespace softgpu
