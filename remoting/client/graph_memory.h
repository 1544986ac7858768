// Memory of graphs: what memory allocation nodes allocate and memory free nodes free (ADR 70).
//
// An allocation node is an empty node of the node's graph. Its memory is allocated when it is
// added, and lies at one address for as long as a graph, an executable graph or the program uses
// it. Then it is kept for allocations of the same size until cuDeviceGraphMemTrim.
//
// Thread safety: all functions may be called from any thread. One mutex guards the states of all
// memory of graphs; no other lock is taken under it.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>

namespace busbar::client {

struct Context;
struct Device;

struct GraphMemory {
  GraphMemory(Context* c, uint64_t address, uint64_t size) : context(c), at(address), bytes(size) {}
  GraphMemory(const GraphMemory&) = delete;
  ~GraphMemory();

  Context* const context;
  const uint64_t at, bytes;
  // Guarded by the mutex of graph_memory.cc.
  bool has_free_node = false;  // a graph has got a node that frees it
  bool live = false;           // a launch has allocated it, and nothing has freed it
};
using GraphMemoryRef = std::shared_ptr<GraphMemory>;

// A memory allocation node or a memory free node.
struct MemoryNode {
  bool frees = false;
  GraphMemoryRef memory;
  CUDA_MEM_ALLOC_NODE_PARAMS params{};  // of an allocation node
};
using MemoryNodes = std::map<CUgraphNode, MemoryNode>;

CUresult allocate_graph_memory(Context* c, uint64_t bytes, GraphMemoryRef& out);
// Return the memory that begins at an address; null if no graph has allocated it.
GraphMemoryRef find_graph_memory(uint64_t at);
// Notes that a graph gets a node that frees memory. Fails if a graph has one already.
CUresult note_free_node(GraphMemory& memory);
void forget_free_node(GraphMemory& memory);  // adding the node has failed

// Applies a launch of an executable graph with these nodes. Fails if memory that it allocates is
// still allocated, unless `frees_first`, or if memory that it frees is not.
CUresult launch_memory_nodes(const MemoryNodes& nodes, bool frees_first);
// Frees memory for the program: cuMemFree and cuMemFreeAsync. Returns false if `at` is no memory of
// a graph.
bool free_graph_memory(uint64_t at, CUresult& result);

// Bytes that graphs of a device use or keep.
uint64_t graph_memory_bytes(const Device* d);
uint64_t graph_memory_high(const Device* d);
void reset_graph_memory_high(const Device* d);
// Frees the memory that no graph uses.
void trim_graph_memory(const Device* d);

}  // namespace busbar::client
