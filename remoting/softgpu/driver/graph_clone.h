// Copies of graphs.
#pragma once

namespace softgpu {

struct GraphState;

// Return a copy with its own nodes and child graphs. The copy maps original nodes to their copies.
GraphState* clone_graph(const GraphState* g);

}  // namespace softgpu
