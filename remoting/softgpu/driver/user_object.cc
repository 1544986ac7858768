#include "softgpu/driver/user_object.h"

#include <algorithm>
#include <mutex>

#include "softgpu/driver/handles.h"

namespace softgpu {

static std::mutex g_objects_mutex;

// Drop references of a kind, at most those that there are.
static void drop(UserObject* o, uint64_t UserObject::* kind, uint64_t count) {
  {
    std::lock_guard lock(g_objects_mutex);
    o->*kind -= std::min(count, o->*kind);
    if (o->own || o->held) return;
  }
  remove_handle(o);
  o->destroy(o->pointer);
  delete o;
}

uint64_t& count_of(ObjectCounts& counts, UserObject* o) {
  for (auto& [known, count] : counts)
    if (known == o) return count;
  return counts.emplace_back(o, 0).second;
}

void retain_object(UserObject* o, uint64_t count) {
  std::lock_guard lock(g_objects_mutex);
  o->own += count;
}

void release_object(UserObject* o, uint64_t count) {
  drop(o, &UserObject::own, count);
}

void hold_object(UserObject* o, uint64_t count, bool move) {
  std::lock_guard lock(g_objects_mutex);
  o->held += count;
  if (move) o->own -= std::min(count, o->own);
}

ObjectCounts hold_objects(const ObjectCounts& objects) {
  std::lock_guard lock(g_objects_mutex);
  for (auto& [o, count] : objects) o->held += count;
  return objects;
}

void drop_objects(const ObjectCounts& objects) {
  for (auto& [o, count] : objects) drop(o, &UserObject::held, count);
}

}  // namespace softgpu
