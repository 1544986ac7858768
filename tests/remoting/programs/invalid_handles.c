/* Handles that are numbers of no object, or of one that is gone, and pointers that are null.
 * NVIDIA's driver crashes or does as if the object were there: only this project's code has errors
 * for them.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "check.h"

static void streams_and_events(void) {
  CUevent e;
  OK(cuEventCreate(&e, CU_EVENT_DEFAULT));
  SHOW(cuStreamQuery((CUstream)0x1234567890));
  SHOW(cuEventDestroy(e));
  SHOW(cuEventDestroy(e));
}

/* Graph nodes record no events of other processes here, as NVIDIA's driver lets them. */
static void events_of_processes(void) {
  CUevent e;
  CUgraph g;
  CUgraphNode n;
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  OK(cuGraphCreate(&g, 0));
  SHOW(cuGraphAddEventRecordNode(&n, g, 0, 0, e));
  SHOW(cuGraphAddEventWaitNode(&n, g, 0, 0, e));
  OK(cuGraphDestroy(g));
  OK(cuEventDestroy(e));
}

static void functions(void) {
  CUfunction f;
  CUdeviceptr p;
  unsigned n = 16, v = 1, rounds = 1;
  void* params[] = {&p, &n, &v, &rounds};
  OK(cuMemAlloc(&p, 4096));
  SHOW(cuModuleGetFunction(&f, (CUmodule)0x55, "bump"));
  SHOW(cuLaunchKernel((CUfunction)0x77, 1, 1, 1, 32, 1, 1, 0, 0, params, 0));
  SHOW(cuLaunchKernel(bump, 1, 1, 1, 32, 1, 1, 0, (CUstream)0x99, params, 0));
  SHOW(cuParamSetv(bump, -4, &p, 8));
  OK(cuMemFree(p));
}

static void arrays(void) {
  CUDA_ARRAY_DESCRIPTOR d = {64, 32, CU_AD_FORMAT_UNSIGNED_INT8, 4};
  CUDA_ARRAY3D_DESCRIPTOR levels = {16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0}, found;
  CUarray array, level;
  CUmipmappedArray m;
  OK(cuArrayCreate(&array, &d));
  OK(cuArrayDestroy(array));
  SHOW(cuArrayDestroy(array));
  OK(cuMipmappedArrayCreate(&m, &levels, 5));
  OK(cuMipmappedArrayGetLevel(&level, m, 4));
  OK(cuMipmappedArrayDestroy(m));
  SHOW(cuArray3DGetDescriptor(&found, level));
  SHOW(cuMipmappedArrayGetLevel(&level, m, 0));
  SHOW(cuMipmappedArrayDestroy(m));
}

static void surfaces(void) {
  CUDA_ARRAY3D_DESCRIPTOR d = {4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
  CUDA_RESOURCE_DESC r;
  CUsurfObject s;
  memset(&r, 0, sizeof r);
  r.resType = CU_RESOURCE_TYPE_ARRAY;
  OK(cuArray3DCreate(&r.res.array.hArray, &d));
  OK(cuSurfObjectCreate(&s, &r));
  OK(cuSurfObjectDestroy(s));
  SHOW(cuSurfObjectDestroy(s));
  OK(cuArrayDestroy(r.res.array.hArray));
}

static void graphs(void) {
  CUgraph g, inner, child;
  CUgraphExec e;
  CUgraphNode n;
  CUuserObject o;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphExecDestroy(e));
  SHOW(cuGraphLaunch(e, 0));
  SHOW(cuGraphLaunch((CUgraphExec)0x1234, 0));
  SHOW(cuGraphDestroy((CUgraph)0x1234));
  /* Only the graph that holds a reference releases it. */
  OK(cuUserObjectCreate(&o, 0, (CUhostFn)free, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(cuGraphCreate(&inner, 0));
  OK(cuGraphAddChildGraphNode(&n, g, 0, 0, inner));
  OK(cuGraphChildGraphNodeGetGraph(n, &child));
  OK(cuGraphRetainUserObject(inner, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
  SHOW(cuGraphReleaseUserObject(child, o, 1));
  SHOW(cuGraphReleaseUserObject(inner, o, 1));
  SHOW(cuGraphReleaseUserObject(inner, o, 1));
  OK(cuGraphDestroy(inner));
  OK(cuGraphDestroy(g));
}

static void physical_memory(void) {
  CUmemAllocationProp prop;
  CUmemGenericAllocationHandle h;
  memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  OK(cuMemCreate(&h, 2 << 20, &prop, 0));
  OK(cuMemRelease(h));
  SHOW(cuMemRelease(h));
}

static void tensor_maps(void) {
  CUtensorMap map;
  cuuint64_t sizes[] = {64, 32, 16}, strides[] = {128, 4096};
  cuuint32_t steps[] = {1, 1, 1};
  int corner[] = {0};
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  memset(&map, 0, sizeof map);
  SHOW(cuTensorMapEncodeIm2col(&map, type, 3, (void*)(1 << 20), sizes, strides, 0, corner, 64, 64,
                               steps, 0, 0, 0, 0));
  SHOW(cuTensorMapEncodeIm2col(&map, type, 3, (void*)(1 << 20), sizes, strides, corner, 0, 64, 64,
                               steps, 0, 0, 0, 0));
  printf("address of no map: %d\n", cuTensorMapReplaceAddress(&map, (void*)4096) != 0);
}

static void contexts(void) {
  CUcontext c;
  OK(cuCtxCreate(&c, 0, 0, 0));
  OK(cuCtxDetach(c));
  SHOW(cuCtxDetach(c));
  OK(cuCtxSetCurrent(context));
}

int main(void) {
  create_context();
  streams_and_events();
  events_of_processes();
  functions();
  arrays();
  surfaces();
  graphs();
  physical_memory();
  tensor_maps();
  contexts();
  SHOW(cuCtxSynchronize());
  return 0;
}
