// Null driver: devices with the attributes of an NVIDIA H200, contexts, streams, events and graphs.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "null_driver/driver.h"
#include "null_driver/process.h"

extern "C" int refuse_call(const char* name, int result) {
  if (std::getenv("NULL_DRIVER_LOG")) std::fprintf(stderr, "null driver: %s\n", name);
  return result;
}

namespace {
int device_count() {
  const char* n = std::getenv("NULL_DRIVER_DEVICES");
  return n ? std::atoi(n) : 1;
}
thread_local CUcontext t_current = nullptr;
CUcontext primary(CUdevice d) {
  return (CUcontext)(uintptr_t)(0x1000 + d);
}

// Runs host functions on one thread, in the order of their launches.
struct HostThread {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  HostThread() {
    std::thread([this] {
      for (;;) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !work.empty(); });
        auto f = std::move(work.front());
        work.pop_front();
        lock.unlock();
        f();
      }
    }).detach();
  }
  void post(std::function<void()> f) {
    std::lock_guard lock(mutex);
    work.push_back(std::move(f));
    changed.notify_one();
  }
};
HostThread& host_thread() {
  static auto* t = new HostThread;
  return *t;
}

const std::map<int, int>& attributes() {
  static const auto* m = new std::map<int, int>{
      {1, 1024},       {2, 1024},        {3, 1024},   {4, 64},        {5, 2147483647},  {6, 65535},
      {7, 65535},      {8, 49152},       {9, 65536},  {10, 32},       {11, 2147483647}, {12, 65536},
      {13, 1980000},   {14, 512},        {15, 1},     {16, 132},      {17, 0},          {18, 0},
      {19, 1},         {20, 0},          {30, 512},   {31, 1},        {32, 0},          {34, 0},
      {35, 0},         {36, 3201000},    {37, 6144},  {38, 62914560}, {39, 2048},       {40, 3},
      {41, 1},         {50, 0},          {75, 9},     {76, 0},        {78, 1},          {79, 1},
      {80, 1},         {81, 233472},     {82, 65536}, {83, 1},        {85, 0},          {86, 1},
      {87, 2},         {88, 0},          {89, 0},     {90, 1},        {91, 1},          {95, 1},
      {97, 232448},    {99, 1},          {101, 0},    {102, 1},       {103, 1},         {106, 32},
      {108, 83886080}, {109, 134213632}, {110, 1},    {111, 1024},    {115, 1},         {120, 1},
      {132, 1}};
  return *m;
}
}  // namespace

API CUresult cuInit(unsigned) {
  return names_a_thread() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
API CUresult cuDriverGetVersion(int* v) {
  const char* want = std::getenv("NULL_DRIVER_VERSION");
  *v = want ? std::atoi(want) : 13000;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetCount(int* n) {
  *n = device_count();
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGet(CUdevice* d, int i) {
  if (i < 0 || i >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *d = i;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetName(char* name, int n, CUdevice) {
  std::snprintf(name, (size_t)n, "NVIDIA H200");
  return CUDA_SUCCESS;
}
#undef cuDeviceGetUuid
API CUresult cuDeviceGetUuid_v2(CUuuid* u, CUdevice d) {
  std::memset(u, 0x40, sizeof *u);
  u->bytes[15] = (char)(d + 1);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid(CUuuid* u, CUdevice d) {
  return cuDeviceGetUuid_v2(u, d);
}
API CUresult cuDeviceTotalMem(size_t* n, CUdevice) {
  *n = kMemoryBytes;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice d) {
  if ((int)a <= 0 || (int)a >= 150) return CUDA_ERROR_INVALID_VALUE;
  if (a == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS &&
      std::getenv("NULL_DRIVER_READS_HOST_MEMORY")) {
    *v = 1;
    return CUDA_SUCCESS;
  }
  auto it = attributes().find((int)a);
  *v = (int)a == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? 3 + d : it == attributes().end() ? 0 : it->second;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d) {
  *c = primary(d);
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetCurrent(CUcontext c) {
  t_current = c;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetCurrent(CUcontext* c) {
  *c = t_current;
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetDevice(CUdevice* d) {
  *d = (int)((uintptr_t)t_current - 0x1000);
  return t_current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
#undef cuCtxSynchronize
API CUresult cuCtxSynchronize(void) {
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetLimit(size_t* v, CUlimit) {
  *v = 1024;
  return CUDA_SUCCESS;
}
API CUresult cuCtxSetLimit(CUlimit, size_t) {
  return CUDA_SUCCESS;
}
API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

// ---- streams and events: all work is complete when a call returns ----
API CUresult cuStreamCreateWithPriority(CUstream* s, unsigned, int) {
  *s = (CUstream) new char;
  return CUDA_SUCCESS;
}
API CUresult cuStreamCreate(CUstream* s, unsigned flags) {
  return cuStreamCreateWithPriority(s, flags, 0);
}
API CUresult cuStreamDestroy(CUstream s) {
  delete (char*)s;
  return CUDA_SUCCESS;
}
API CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  return CUDA_SUCCESS;
}
API CUresult cuStreamSynchronize(CUstream) {
  return CUDA_SUCCESS;
}
API CUresult cuEventCreate(CUevent* e, unsigned) {
  *e = (CUevent) new char;
  return CUDA_SUCCESS;
}
API CUresult cuEventDestroy(CUevent e) {
  delete (char*)e;
  return CUDA_SUCCESS;
}
API CUresult cuEventRecord(CUevent, CUstream) {
  return CUDA_SUCCESS;
}
API CUresult cuEventQuery(CUevent) {
  return CUDA_SUCCESS;
}
API CUresult cuEventSynchronize(CUevent) {
  return CUDA_SUCCESS;
}
#undef cuEventElapsedTime
API CUresult cuEventElapsedTime_v2(float* ms, CUevent, CUevent) {
  *ms = 0.01f;
  return CUDA_SUCCESS;
}
API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  return cuEventElapsedTime_v2(ms, a, b);
}
#undef cuLaunchHostFunc
API CUresult cuLaunchHostFunc(CUstream, CUhostFn f, void* data) {
  host_thread().post([=] { f(data); });
  return CUDA_SUCCESS;
}

// ---- captures and graphs: nodes are not stored ----
namespace {
std::mutex g_captures_mutex;
std::map<CUstream, bool>& captures() {
  static auto* m = new std::map<CUstream, bool>;
  return *m;
}
}  // namespace
API CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode) {
  std::lock_guard lock(g_captures_mutex);
  captures()[s] = true;
  return CUDA_SUCCESS;
}
API CUresult cuStreamEndCapture(CUstream s, CUgraph* g) {
  std::lock_guard lock(g_captures_mutex);
  captures().erase(s);
  *g = (CUgraph) new char;
  return CUDA_SUCCESS;
}
API CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  std::lock_guard lock(g_captures_mutex);
  *status = captures().count(s) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
#undef cuStreamGetCaptureInfo
API CUresult cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
                                       CUgraph* g, const CUgraphNode** nodes,
                                       const CUgraphEdgeData** edges, size_t* n) {
  static char graph;
  cuStreamIsCapturing(s, status);
  if (id) *id = 1;
  if (g) *g = (CUgraph)&graph;
  if (nodes) *nodes = nullptr;
  if (edges) *edges = nullptr;
  if (n) *n = 0;
  return CUDA_SUCCESS;
}
API CUresult cuGraphCreate(CUgraph* g, unsigned) {
  *g = (CUgraph) new char;
  return CUDA_SUCCESS;
}
API CUresult cuGraphDestroy(CUgraph g) {
  delete (char*)g;
  return CUDA_SUCCESS;
}
API CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, size_t* n) {
  *n = 0;
  return CUDA_SUCCESS;
}
API CUresult cuGraphInstantiateWithParams(CUgraphExec* e, CUgraph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  *e = (CUgraphExec) new char;
  p->hErrNode_out = nullptr;
  p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}
API CUresult cuGraphExecDestroy(CUgraphExec e) {
  delete (char*)e;
  return CUDA_SUCCESS;
}
API CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  return CUDA_SUCCESS;
}
API CUresult cuGraphUpload(CUgraphExec, CUstream) {
  return CUDA_SUCCESS;
}
