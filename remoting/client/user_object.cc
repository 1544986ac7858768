#include "client/user_object.h"

#include <algorithm>
#include <climits>
#include <map>
#include <mutex>
#include <set>

namespace busbar::client {

struct UserObject {
  void* data;
  CUhostFn destroy;
  uint64_t references;
};

namespace {
struct Registry {
  std::mutex mutex;
  std::set<UserObject*> live;
  std::map<const void*, UserObjects> held;  // by graph or executable graph
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

// Return the object of a handle, or null if it is not live. Call with the lock.
UserObject* find(CUuserObject h) {
  auto* o = (UserObject*)h;
  return registry().live.count(o) ? o : nullptr;
}

// Drops references. Releases the lock while the destructor runs.
void release(std::unique_lock<std::mutex>& lock, UserObject* o, uint64_t count) {
  o->references -= std::min(count, o->references);
  if (o->references) return;
  registry().live.erase(o);
  lock.unlock();
  o->destroy(o->data);
  delete o;
  lock.lock();
}
}  // namespace

CUuserObject create_user_object(void* data, CUhostFn destroy, unsigned references) {
  auto* o = new UserObject{data, destroy, references};
  std::lock_guard lock(registry().mutex);
  registry().live.insert(o);
  return (CUuserObject)o;
}

CUresult retain_user_object(CUuserObject h, unsigned count) {
  std::lock_guard lock(registry().mutex);
  UserObject* o = find(h);
  if (!o) return CUDA_ERROR_INVALID_VALUE;
  o->references += count;
  return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult release_user_object(CUuserObject h, unsigned count) {
  std::unique_lock lock(registry().mutex);
  UserObject* o = find(h);
  if (!o || !count) return CUDA_ERROR_INVALID_VALUE;
  release(lock, o, count);
  return CUDA_SUCCESS;
}

CUresult retain_user_object_by_graph(CUgraph g, CUuserObject h, unsigned count, bool move) {
  std::lock_guard lock(registry().mutex);
  UserObject* o = find(h);
  if (!o || !count || count > INT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (!move) o->references += count;
  auto& held = registry().held[g];
  held.insert(held.end(), count, o);
  return CUDA_SUCCESS;
}

CUresult release_user_object_by_graph(CUgraph g, CUuserObject h, unsigned count) {
  std::unique_lock lock(registry().mutex);
  UserObject* o = find(h);
  if (!o) return CUDA_ERROR_INVALID_VALUE;
  auto& held = registry().held[g];
  unsigned released = 0;
  for (auto it = held.begin();
       released < count && (it = std::find(held.begin(), held.end(), o)) != held.end(); ++released)
    it = held.erase(it);
  if (released) release(lock, o, released);
  return released == count && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void share_user_objects(const void* from, const void* to) {
  std::lock_guard lock(registry().mutex);
  auto it = registry().held.find(from);
  if (it == registry().held.end()) return;
  for (auto* o : it->second) ++o->references;
  auto objects = it->second;
  auto& held = registry().held[to];
  held.insert(held.end(), objects.begin(), objects.end());
}

bool has_user_objects(const void* holder) {
  std::lock_guard lock(registry().mutex);
  auto it = registry().held.find(holder);
  return it != registry().held.end() && !it->second.empty();
}

UserObjects remove_user_objects(const void* holder) {
  std::lock_guard lock(registry().mutex);
  auto entry = registry().held.extract(holder);
  return entry ? std::move(entry.mapped()) : UserObjects{};
}

void restore_user_objects(const void* holder, UserObjects objects) {
  std::lock_guard lock(registry().mutex);
  if (!objects.empty()) registry().held[holder] = std::move(objects);
}

void release_user_objects(const UserObjects& objects) {
  std::unique_lock lock(registry().mutex);
  for (auto* o : objects) release(lock, o, 1);
}

}  // namespace busbar::client
