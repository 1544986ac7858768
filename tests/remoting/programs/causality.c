/* Completion is causal: when work is complete, all work that it depends on is complete in any
 * stream.
 */
#include "check.h"

enum { N = 64, ROUNDS = 3000 };

static CUdeviceptr p;
static CUstream before, behind;
static CUevent event;
static unsigned value;
static int late[3];

static void work(CUstream s) {
  OK(launch_bump(p, N, 1, 1, s));
}

static void fetch(CUstream s) {
  OK(cuMemcpyDtoHAsync(&value, p, 4, s));
  OK(cuStreamSynchronize(s));
}

static void via_event(void) {
  work(before);
  OK(cuEventRecord(event, before));
  OK(cuStreamWaitEvent(behind, event, 0));
  fetch(behind);
  late[0] += cuEventQuery(event) || cuStreamQuery(before);
}

static void via_legacy_stream(void) {
  work(before);
  fetch(0);
  late[1] += cuStreamQuery(before) != CUDA_SUCCESS;
}

static void via_graph(CUgraphExec graph) {
  OK(cuGraphLaunch(graph, before));
  OK(cuStreamWaitEvent(behind, event, 0));
  fetch(behind);
  late[2] += cuEventQuery(event) != CUDA_SUCCESS;
}

static CUgraphExec create_recording_graph(void) {
  CUgraph g;
  CUgraphExec e;
  CUgraphNode n;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddEventRecordNode(&n, g, 0, 0, event));
  OK(cuGraphInstantiate(&e, g, 0));
  return e;
}

int main(void) {
  create_context();
  OK(cuMemAlloc(&p, N * 4));
  OK(cuMemsetD32(p, 0, N));
  OK(cuStreamCreate(&before, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUgraphExec graph = create_recording_graph();
  for (int i = 0; i < ROUNDS; ++i) {
    via_event();
    via_legacy_stream();
    via_graph(graph);
  }
  printf("incomplete: via event %d, via legacy stream %d, via graph %d\n", late[0], late[1],
         late[2]);
  return 0;
}
