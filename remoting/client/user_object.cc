// User objects: something of the program's that lives as long as the graphs that use it. The node
// need not know of them.
#include <algorithm>
#include <map>
#include <set>

#include "client/call.h"
#include "client/node_calls.h"

namespace busbar::client {

struct UserObject {
  void* pointer;
  CUhostFn destroy;
  uint64_t references;
};

namespace {
struct Registry {
  std::mutex mutex;
  std::set<UserObject*> live;
  std::map<const void*, UserObjects> held;  // by a graph or an executable graph
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

void release(std::unique_lock<std::mutex>& lock, UserObject* o, uint64_t count) {
  o->references -= std::min(count, o->references);
  if (o->references) return;
  registry().live.erase(o);
  lock.unlock();
  o->destroy(o->pointer);
  delete o;
  lock.lock();
}
}  // namespace

void share_objects(const void* from, const void* to) {
  std::lock_guard lock(registry().mutex);
  auto it = registry().held.find(from);
  if (it == registry().held.end()) return;
  for (auto* o : it->second) ++o->references;
  registry().held[to] = it->second;
}

UserObjects take_objects_of(const void* holder) {
  std::lock_guard lock(registry().mutex);
  auto entry = registry().held.extract(holder);
  return entry ? std::move(entry.mapped()) : UserObjects{};
}

void give_objects_to(const void* holder, UserObjects objects) {
  std::lock_guard lock(registry().mutex);
  if (!objects.empty()) registry().held[holder] = std::move(objects);
}

void release_objects(const UserObjects& objects) {
  std::unique_lock lock(registry().mutex);
  for (auto* o : objects) release(lock, o, 1);
}

}  // namespace busbar::client

using namespace busbar;
using namespace busbar::client;

#define OBJECT(o, h)                                 \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED; \
  auto* o = (UserObject*)(h);                        \
  std::unique_lock lock(registry().mutex);           \
  if (!registry().live.count(o)) return CUDA_ERROR_INVALID_VALUE

API CUresult cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy,
                                unsigned references, unsigned flags) {
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!out || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  auto* o = new UserObject{pointer, destroy, references};
  std::lock_guard lock(registry().mutex);
  registry().live.insert(o);
  *out = (CUuserObject)o;
  return CUDA_SUCCESS;
}
API CUresult cuUserObjectRetain(CUuserObject h, unsigned count) {
  OBJECT(o, h);
  o->references += count;
  return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuUserObjectRelease(CUuserObject h, unsigned count) {
  OBJECT(o, h);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  release(lock, o, count);
  return CUDA_SUCCESS;
}

API CUresult cuGraphRetainUserObject(CUgraph g, CUuserObject h, unsigned count, unsigned flags) {
  OBJECT(o, h);
  if (!count || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE ||
      !home_of(ObjectKind::graph, (uint64_t)g).link)
    return CUDA_ERROR_INVALID_VALUE;
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) o->references += count;
  auto& held = registry().held[g];
  held.insert(held.end(), count, o);
  return CUDA_SUCCESS;
}

API CUresult cuGraphReleaseUserObject(CUgraph g, CUuserObject h, unsigned count) {
  OBJECT(o, h);
  auto& held = registry().held[g];
  unsigned released = 0;
  for (auto it = held.begin();
       released < count && (it = std::find(held.begin(), held.end(), o)) != held.end(); ++released)
    it = held.erase(it);
  if (released) release(lock, o, released);
  return released == count && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
