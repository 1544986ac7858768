/* Who knows that something is done knows it of everything before it, in whichever stream that was.
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

static void by_an_event(void) {
  work(before);
  OK(cuEventRecord(event, before));
  OK(cuStreamWaitEvent(behind, event, 0));
  fetch(behind);
  late[0] += cuEventQuery(event) || cuStreamQuery(before);
}

static void by_the_legacy_stream(void) {
  work(before);
  fetch(0);
  late[1] += cuStreamQuery(before) != CUDA_SUCCESS;
}

static void by_a_graph(CUgraphExec graph) {
  OK(cuGraphLaunch(graph, before));
  OK(cuStreamWaitEvent(behind, event, 0));
  fetch(behind);
  late[2] += cuEventQuery(event) != CUDA_SUCCESS;
}

static CUgraphExec graph_that_records(void) {
  CUgraph g;
  CUgraphExec e;
  CUgraphNode n;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddEventRecordNode(&n, g, 0, 0, event));
  OK(cuGraphInstantiate(&e, g, 0));
  return e;
}

int main(void) {
  begin();
  OK(cuMemAlloc(&p, N * 4));
  OK(cuMemsetD32(p, 0, N));
  OK(cuStreamCreate(&before, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUgraphExec graph = graph_that_records();
  for (int i = 0; i < ROUNDS; ++i) {
    by_an_event();
    by_the_legacy_stream();
    by_a_graph(graph);
  }
  printf("not known in time: by an event %d, by the legacy stream %d, by a graph %d\n", late[0],
         late[1], late[2]);
  return 0;
}
