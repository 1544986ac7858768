#include "client/array.h"

#include <unordered_map>

#include "client/call.h"
#include "client/memory_request.h"
#include "mutex.h"

namespace busbar::client {

namespace {
struct ShapeCache {
  Mutex mutex;
  std::unordered_map<CUarray, CUDA_ARRAY3D_DESCRIPTOR> shapes GUARDED_BY(mutex);
};
ShapeCache& cache() {
  static auto* c = new ShapeCache;
  return *c;
}

void cache_shape(CUarray a, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  MutexLock lock(cache().mutex);
  cache().shapes[a] = shape;
}
}  // namespace

CUresult create_array(ObjectKind kind, const CUDA_ARRAY3D_DESCRIPTOR& shape, uint32_t levels,
                      uint64_t& out) {
  if (CUresult r = unsafe_in_capture()) return r;
  Call call;
  if (CUresult r = call.begin(kNoStreamHandle)) return r;
  CUresult r =
      request_memory(call.context()->device, call.context(), Attempt::waits, [&](bool asks) {
        wire::Encoder<> e(wire::Op::create_array, call.context_id());
        e.put(call.reply_id()).put(shape).put(levels).put<uint32_t>(asks);
        out = call.send_and_wait(e.finish(), e.size()).get<uint64_t>();
        return call.status();
      });
  if (r) return r;
  call.add_object(kind, out);
  if (kind == ObjectKind::array) cache_shape((CUarray)out, shape);
  return CUDA_SUCCESS;
}

CUresult destroy_array(ObjectKind kind, uint64_t value) {
  Call call;
  if (CUresult r = call.begin_without_context()) return r;
  if (!call.select_node_of(kind, value)) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = call.drain()) return r;
  wire::Encoder<> e(wire::Op::destroy_array, call.context_id());
  e.put(call.reply_id()).put((uint32_t)kind).put<uint32_t>(0).put(value);
  auto removed = call.remove_object(kind, value);
  {
    MutexLock lock(cache().mutex);
    for (auto& object : removed)
      if (object.kind == ObjectKind::array) cache().shapes.erase((CUarray)object.value);
  }
  call.send_and_wait(e.finish(), e.size());
  if (call.status()) call.restore_objects(std::move(removed));
  return call.status();
}

bool array_shape(CUarray a, CUDA_ARRAY3D_DESCRIPTOR& out) {
  {
    MutexLock lock(cache().mutex);
    auto it = cache().shapes.find(a);
    if (it != cache().shapes.end()) {
      out = it->second;
      return true;
    }
  }
  if (cuArray3DGetDescriptor_v2(&out, a)) return false;
  cache_shape(a, out);
  return true;
}

}  // namespace busbar::client
