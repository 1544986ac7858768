#include "softgpu/driver/graph_memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

#include "softgpu/driver/context.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/stream_queue.h"

namespace softgpu {

namespace {
// Memory that no graph uses.
struct Kept {
  Context* context;
  uint64_t at, bytes;
};
struct Usage {
  uint64_t bytes = 0, high = 0;
};
struct Table {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<GraphMemory>> by_address;
  std::map<uint64_t, GraphMemoryRef> live;
  std::vector<Kept> kept;
  std::map<int, Usage> usage;  // by device
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

bool take_kept(const Context* c, uint64_t bytes, uint64_t& at) {
  std::lock_guard lock(table().mutex);
  auto& kept = table().kept;
  auto it = std::find_if(kept.begin(), kept.end(),
                         [&](const Kept& k) { return k.context == c && k.bytes == bytes; });
  if (it == kept.end()) return false;
  at = it->at;
  kept.erase(it);
  return true;
}

CUresult allocate_new(Context* c, uint64_t bytes, uint64_t& at) {
  CUdeviceptr p = 0;
  CUresult r = allocate_memory(c, bytes, &p);
  if (r == CUDA_ERROR_OUT_OF_MEMORY) {
    trim_graph_memory(c->device->ordinal);
    r = allocate_memory(c, bytes, &p);
  }
  if (r) return r;
  at = p;
  std::lock_guard lock(table().mutex);
  Usage& u = table().usage[c->device->ordinal];
  u.bytes += bytes;
  u.high = std::max(u.high, u.bytes);
  return CUDA_SUCCESS;
}

bool contains(const std::vector<MemoryNode>& nodes, const GraphMemoryRef& memory, bool frees) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](auto& n) { return n.frees == frees && n.memory == memory; });
}
}  // namespace

GraphMemory::~GraphMemory() {
  std::lock_guard lock(table().mutex);
  table().by_address.erase(at);
  table().kept.push_back({context, at, bytes});
}

CUresult allocate_graph_memory(Context* c, uint64_t bytes, GraphMemoryRef& out) {
  uint64_t at = 0;
  if (take_kept(c, bytes, at))
    wait_for_context(c);
  else if (CUresult r = allocate_new(c, bytes, at))
    return r;
  out = std::make_shared<GraphMemory>(c, at, bytes);
  std::lock_guard lock(table().mutex);
  table().by_address[at] = out;
  return CUDA_SUCCESS;
}

GraphMemoryRef find_graph_memory(uint64_t at) {
  std::lock_guard lock(table().mutex);
  auto it = table().by_address.find(at);
  return it == table().by_address.end() ? nullptr : it->second.lock();
}

CUresult note_free_node(GraphMemory& memory) {
  std::lock_guard lock(table().mutex);
  if (memory.has_free_node) return CUDA_ERROR_INVALID_VALUE;
  memory.has_free_node = true;
  return CUDA_SUCCESS;
}

void forget_free_node(GraphMemory& memory) {
  std::lock_guard lock(table().mutex);
  memory.has_free_node = false;
}

CUresult launch_memory_nodes(const std::vector<MemoryNode>& nodes, bool frees_first) {
  std::vector<GraphMemoryRef> freed;  // released after the lock
  std::lock_guard lock(table().mutex);
  for (auto& n : nodes) {
    bool valid = n.frees ? n.memory->live || contains(nodes, n.memory, false)
                         : !n.memory->live || frees_first;
    if (!valid) return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto& n : nodes) {
    if (!n.frees && contains(nodes, n.memory, true)) continue;
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
  std::lock_guard lock(table().mutex);
  if (!memory) {
    result = CUDA_ERROR_INVALID_VALUE;
    return std::ranges::any_of(table().kept, [at](const Kept& k) { return k.at == at; });
  }
  result = memory->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  memory->live = false;
  if (auto entry = table().live.extract(at)) last = std::move(entry.mapped());
  return true;
}

uint64_t graph_memory_bytes(int ordinal) {
  std::lock_guard lock(table().mutex);
  return table().usage[ordinal].bytes;
}

uint64_t graph_memory_high(int ordinal) {
  std::lock_guard lock(table().mutex);
  return table().usage[ordinal].high;
}

void reset_graph_memory_high(int ordinal) {
  std::lock_guard lock(table().mutex);
  table().usage[ordinal].high = table().usage[ordinal].bytes;
}

void trim_graph_memory(int ordinal) {
  std::vector<Kept> removed;
  {
    std::lock_guard lock(table().mutex);
    auto& kept = table().kept;
    auto end = std::partition(kept.begin(), kept.end(),
                              [&](auto& k) { return k.context->device->ordinal != ordinal; });
    std::move(end, kept.end(), std::back_inserter(removed));
    kept.erase(end, kept.end());
    for (auto& k : removed) table().usage[ordinal].bytes -= k.bytes;
  }
  for (auto& k : removed) {
    wait_for_context(k.context);
    release_memory(k.at);
  }
}

}  // namespace softgpu
