// Memory of graphs: what memory allocation nodes allocate and memory free nodes free.
//
// Memory is allocated when its node is added, and lies at one address for as long as a graph, an
// executable graph or the program uses it. Then it is kept for allocations of the same size until
// cuDeviceGraphMemTrim.
//
// Thread safety: all functions may be called from any thread. One mutex guards the states of all
// memory of graphs; functions that take Driver::mutex or wait for streams are called without it.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace softgpu {

struct Context;

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
  bool frees;
  GraphMemoryRef memory;
};

// May wait for the work of the context.
CUresult allocate_graph_memory(Context* c, uint64_t bytes, GraphMemoryRef& out);
// Return the memory that begins at an address; null if no graph has allocated it.
GraphMemoryRef find_graph_memory(uint64_t at);
// Note that a graph gets a node that frees memory. Fail if a graph has one already.
CUresult note_free_node(GraphMemory& memory);
void forget_free_node(GraphMemory& memory);  // adding the node has failed

// Apply a launch of an executable graph with these nodes. Fail if memory that it allocates is still
// allocated, unless `frees_first`, or if memory that it frees is not.
CUresult launch_memory_nodes(const std::vector<MemoryNode>& nodes, bool frees_first);
// Free memory for the program. Return false if `at` is no memory of a graph.
bool free_graph_memory(uint64_t at, CUresult& result);

// Bytes that graphs of a device use or keep.
uint64_t graph_memory_bytes(int ordinal);
uint64_t graph_memory_high(int ordinal);
void reset_graph_memory_high(int ordinal);
// Free the memory that no graph uses. Waits for the work of its contexts.
void trim_graph_memory(int ordinal);

}  // namespace softgpu
