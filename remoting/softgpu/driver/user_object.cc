#include "softgpu/driver/user_object.h"

#include <algorithm>
#include <mutex>

#include "softgpu/driver/handles.h"

namespace softgpu {

static std::mutex g_objects_mutex;

void retain_object(UserObject* o, unsigned count) {
  std::lock_guard lock(g_objects_mutex);
  o->references += count;
}

void release_object(UserObject* o, unsigned count) {
  {
    std::lock_guard lock(g_objects_mutex);
    o->references -= std::min(count, o->references);
    if (o->references) return;
  }
  remove_handle(o);
  o->destroy(o->pointer);
  delete o;
}

std::vector<UserObject*> retain_objects(const std::vector<UserObject*>& objects) {
  std::lock_guard lock(g_objects_mutex);
  for (auto* o : objects) ++o->references;
  return objects;
}

}  // namespace softgpu
