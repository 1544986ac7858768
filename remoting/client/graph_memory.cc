#include "client/graph_memory.h"

#include <algorithm>
#include <vector>

#include "client/context.h"
#include "client/device_memory.h"
#include "client/session.h"
#include "mutex.h"

namespace busbar::client {

namespace {
// Memory that no graph uses.
struct Kept {
  Context* context;
  uint64_t at, bytes;
  Heap::Done done;
};
struct Usage {
  uint64_t bytes = 0, high = 0;
};
struct Table {
  Mutex mutex;
  std::map<uint64_t, std::weak_ptr<GraphMemory>> by_address GUARDED_BY(mutex);
  std::map<uint64_t, GraphMemoryRef> live GUARDED_BY(mutex);
  std::vector<Kept> kept GUARDED_BY(mutex);
  std::map<const Device*, Usage> usage GUARDED_BY(mutex);
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

// Takes kept memory of this size. Returns false if there is none that is no longer in use.
bool take_kept(Context* c, uint64_t bytes, uint64_t& at) {
  MutexLock lock(table().mutex);
  auto& kept = table().kept;
  auto it = std::find_if(kept.begin(), kept.end(), [&](Kept& k) {
    return k.bytes == bytes && k.context->device == c->device && k.done();
  });
  if (it == kept.end()) return false;
  at = it->at;
  kept.erase(it);
  return true;
}

CUresult allocate_new(Context* c, uint64_t bytes, uint64_t& at) {
  CUresult r = allocate_device_memory(c, bytes, at);
  if (r == CUDA_ERROR_OUT_OF_MEMORY) {
    trim_graph_memory(c->device);
    r = allocate_device_memory(c, bytes, at);
  }
  if (r) return r;
  MutexLock lock(table().mutex);
  Usage& u = table().usage[c->device];
  u.bytes += bytes;
  u.high = std::max(u.high, u.bytes);
  return CUDA_SUCCESS;
}

// Return whether the graph of these nodes frees memory itself.
bool frees_itself(const MemoryNodes& nodes, const GraphMemoryRef& memory) {
  return std::any_of(nodes.begin(), nodes.end(), [&](auto& entry) {
    return entry.second.frees && entry.second.memory == memory;
  });
}
bool allocates(const MemoryNodes& nodes, const GraphMemoryRef& memory) {
  return std::any_of(nodes.begin(), nodes.end(), [&](auto& entry) {
    return !entry.second.frees && entry.second.memory == memory;
  });
}
}  // namespace

GraphMemory::~GraphMemory() {
  session()->addresses.remove(at, Region::device);
  Heap::Done done = submitted_work_done(context);
  MutexLock lock(table().mutex);
  table().by_address.erase(at);
  table().kept.push_back({context, at, bytes, std::move(done)});
}

CUresult allocate_graph_memory(Context* c, uint64_t bytes, GraphMemoryRef& out) {
  uint64_t at = 0;
  if (!take_kept(c, bytes, at))
    if (CUresult r = allocate_new(c, bytes, at)) return r;
  session()->addresses.add({Region::device, at, bytes, 0, c, 0});
  out = std::make_shared<GraphMemory>(c, at, bytes);
  MutexLock lock(table().mutex);
  table().by_address[at] = out;
  return CUDA_SUCCESS;
}

GraphMemoryRef find_graph_memory(uint64_t at) {
  MutexLock lock(table().mutex);
  auto it = table().by_address.find(at);
  return it == table().by_address.end() ? nullptr : it->second.lock();
}

CUresult note_free_node(GraphMemory& memory) {
  MutexLock lock(table().mutex);
  if (memory.has_free_node) return CUDA_ERROR_INVALID_VALUE;
  memory.has_free_node = true;
  return CUDA_SUCCESS;
}

void forget_free_node(GraphMemory& memory) {
  MutexLock lock(table().mutex);
  memory.has_free_node = false;
}

CUresult launch_memory_nodes(const MemoryNodes& nodes, bool frees_first) {
  std::vector<GraphMemoryRef> freed;  // released after the lock
  MutexLock lock(table().mutex);
  for (auto& [node, n] : nodes) {
    bool valid =
        n.frees ? n.memory->live || allocates(nodes, n.memory) : !n.memory->live || frees_first;
    if (!valid) return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto& [node, n] : nodes) {
    if (!n.frees && frees_itself(nodes, n.memory)) continue;
    n.memory->live = !n.frees;
    auto& live = table().live;
    if (!n.frees)
      live[n.memory->at] = n.memory;
    else if (auto entry = live.extract(n.memory->at))
      freed.push_back(std::move(entry.mapped()));
  }
  return CUDA_SUCCESS;
}

bool free_graph_memory(uint64_t at, CUresult& result) {
  GraphMemoryRef memory = find_graph_memory(at), last;
  if (!memory) return false;
  MutexLock lock(table().mutex);
  result = memory->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  memory->live = false;
  if (auto entry = table().live.extract(at)) last = std::move(entry.mapped());
  return true;
}

uint64_t graph_memory_bytes(const Device* d) {
  MutexLock lock(table().mutex);
  return table().usage[d].bytes;
}

uint64_t graph_memory_high(const Device* d) {
  MutexLock lock(table().mutex);
  return table().usage[d].high;
}

void reset_graph_memory_high(const Device* d) {
  MutexLock lock(table().mutex);
  table().usage[d].high = table().usage[d].bytes;
}

void trim_graph_memory(const Device* d) {
  std::vector<Kept> removed;
  {
    MutexLock lock(table().mutex);
    auto& kept = table().kept;
    auto end = std::partition(kept.begin(), kept.end(),
                              [&](const Kept& k) { return k.context->device != d; });
    std::move(end, kept.end(), std::back_inserter(removed));
    kept.erase(end, kept.end());
    for (auto& k : removed) table().usage[d].bytes -= k.bytes;
  }
  for (auto& k : removed)
    release_device_memory({Region::device, k.at, k.bytes, 0, k.context, 0}, std::move(k.done));
}

}  // namespace busbar::client
