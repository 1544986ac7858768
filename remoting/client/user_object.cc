#include "client/user_object.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>

#include "mutex.h"

namespace busbar::client {

struct UserObject {
  void* data;
  CUhostFn destroy;
  uint64_t own;       // references of the program
  uint64_t held = 0;  // references of graphs, which the program cannot release itself
};

namespace {
struct Registry {
  Mutex mutex;
  std::set<UserObject*> live GUARDED_BY(mutex);
  std::map<const void*, UserObjects> held GUARDED_BY(mutex);  // by graph or executable graph
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

// Return the object of a handle, or null if it is not live.
UserObject* find(CUuserObject h) REQUIRES(registry().mutex) {
  auto* o = (UserObject*)h;
  return registry().live.count(o) ? o : nullptr;
}

// Return the number of an object, which is added with 0 references if there is none.
uint64_t& count_of(UserObjects& counts, UserObject* o) {
  for (auto& [known, count] : counts)
    if (known == o) return count;
  return counts.emplace_back(o, 0).second;
}

// Drops references of a kind, at most those that there are. Releases the mutex while the destructor
// runs.
void drop(UserObject* o, uint64_t UserObject::* kind, uint64_t count) REQUIRES(registry().mutex) {
  o->*kind -= std::min(count, o->*kind);
  if (o->own || o->held) return;
  registry().live.erase(o);
  MutexUnlock unlock(registry().mutex);
  o->destroy(o->data);
  delete o;
}
}  // namespace

CUuserObject create_user_object(void* data, CUhostFn destroy, unsigned references) {
  auto* o = new UserObject{data, destroy, references};
  MutexLock lock(registry().mutex);
  registry().live.insert(o);
  return (CUuserObject)o;
}

CUresult retain_user_object(CUuserObject h, unsigned count) {
  MutexLock lock(registry().mutex);
  UserObject* o = find(h);
  if (!o) return CUDA_ERROR_INVALID_VALUE;
  o->own += count;
  return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult release_user_object(CUuserObject h, unsigned count) {
  MutexLock lock(registry().mutex);
  UserObject* o = find(h);
  if (!o || !count) return CUDA_ERROR_INVALID_VALUE;
  drop(o, &UserObject::own, count);
  return CUDA_SUCCESS;
}

CUresult retain_user_object_by_graph(CUgraph g, CUuserObject h, unsigned count, bool move) {
  MutexLock lock(registry().mutex);
  UserObject* o = find(h);
  if (!o || !count || count > INT_MAX) return CUDA_ERROR_INVALID_VALUE;
  o->held += count;
  if (move) o->own -= std::min<uint64_t>(count, o->own);
  count_of(registry().held[g], o) += count;
  return CUDA_SUCCESS;
}

CUresult release_user_object_by_graph(CUgraph g, CUuserObject h, unsigned count) {
  MutexLock lock(registry().mutex);
  UserObject* o = find(h);
  if (!o || !count) return CUDA_ERROR_INVALID_VALUE;
  auto& objects = registry().held[g];
  uint64_t& held = count_of(objects, o);
  bool valid = held >= count;
  if (valid) held -= count;
  std::erase_if(objects, [](auto& entry) { return !entry.second; });
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  drop(o, &UserObject::held, count);
  return CUDA_SUCCESS;
}

void share_user_objects(const void* from, const void* to) {
  MutexLock lock(registry().mutex);
  auto it = registry().held.find(from);
  if (it == registry().held.end()) return;
  auto objects = it->second;
  for (auto& [o, count] : objects) {
    o->held += count;
    count_of(registry().held[to], o) += count;
  }
}

bool has_user_objects(const void* holder) {
  MutexLock lock(registry().mutex);
  auto it = registry().held.find(holder);
  return it != registry().held.end() && !it->second.empty();
}

UserObjects remove_user_objects(const void* holder) {
  MutexLock lock(registry().mutex);
  auto entry = registry().held.extract(holder);
  return entry ? std::move(entry.mapped()) : UserObjects{};
}

void restore_user_objects(const void* holder, UserObjects objects) {
  MutexLock lock(registry().mutex);
  if (!objects.empty()) registry().held[holder] = std::move(objects);
}

void release_user_objects(const UserObjects& objects) {
  MutexLock lock(registry().mutex);
  for (auto& [o, count] : objects) drop(o, &UserObject::held, count);
}

}  // namespace busbar::client
