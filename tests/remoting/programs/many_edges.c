/* Requests with more elements than fit in one record are refused; the stack stays whole. */
#include "check.h"

enum { EDGES = 4096 };
static CUgraphNode from[EDGES], to[EDGES];
static CUgraphEdgeData data[EDGES];

static void add(CUgraph g, const CUgraphEdgeData* edge_data, size_t n) {
  CUresult r = cuGraphAddDependencies_v2(g, from, to, edge_data, n);
  printf("%zu edges%s: %d\n", n, edge_data ? " with data" : "", r);
  if (r == CUDA_SUCCESS) OK(cuGraphRemoveDependencies_v2(g, from, to, edge_data, n));
}

int main(void) {
  CUgraph g, copy;
  CUgraphNode root;
  CUstream s;
  create_context();
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddEmptyNode(&root, g, 0, 0));
  for (int i = 0; i < EDGES; ++i) {
    from[i] = root;
    OK(cuGraphAddEmptyNode(&to[i], g, 0, 0));
  }
  add(g, data, 1000);
  add(g, data, EDGES);
  add(g, 0, 3000);
  add(g, 0, EDGES);
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  CUresult r = cuStreamBeginCaptureToGraph(s, g, to, data, EDGES, CU_STREAM_CAPTURE_MODE_RELAXED);
  printf("capture behind %d nodes: %d\n", EDGES, r);
  if (r == CUDA_SUCCESS) OK(cuStreamEndCapture(s, &copy));
  return 0;
}
