// NVML entry points: memory and processes of the partition.
#include <nvml.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "nvml/require.h"

using namespace busbar;
using namespace busbar::nvml;

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t h, nvmlMemory_t* m) {
  FIND_FRESH_DEVICE(d, h);
  CHECK_ARGUMENT(m);
  m->total = d->sample.memory_total;
  m->used = std::min(d->sample.memory_used, d->sample.memory_total);
  m->free = m->total - m->used;
  return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t h, nvmlMemory_v2_t* m) {
  nvmlMemory_t plain;
  CHECK_ARGUMENT(m);
  if (nvmlReturn_t r = nvmlDeviceGetMemoryInfo(h, &plain)) return r;
  m->total = plain.total;
  m->used = plain.used;
  m->free = plain.free;
  m->reserved = 0;
  return NVML_SUCCESS;
}

template <typename Info>
static nvmlReturn_t list_processes(nvmlDevice_t h, unsigned* count, Info* out) {
  FIND_FRESH_DEVICE(d, h);
  CHECK_ARGUMENT(count);
  unsigned room = *count, n = (unsigned)d->processes.size();
  *count = n;
  if (n > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  CHECK_ARGUMENT(out || !n);
  for (unsigned i = 0; i < n; ++i) {
    std::memset(&out[i], 0, sizeof out[i]);
    out[i].pid = d->processes[i].pid;
    out[i].usedGpuMemory = d->processes[i].bytes;
  }
  return NVML_SUCCESS;
}
static nvmlReturn_t list_no_processes(nvmlDevice_t h, unsigned* count) {
  FIND_DEVICE(d, h);
  (void)d;
  CHECK_ARGUMENT(count);
  *count = 0;
  return NVML_SUCCESS;
}
#undef nvmlDeviceGetComputeRunningProcesses
#undef nvmlDeviceGetGraphicsRunningProcesses
#undef nvmlDeviceGetMPSComputeRunningProcesses
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t h, unsigned* n,
                                                         nvmlProcessInfo_t* out) {
  nvmlReturn_t r = list_processes(h, n, out);
  for (unsigned i = 0; !r && out && i < *n; ++i)
    out[i].gpuInstanceId = out[i].computeInstanceId = 0xFFFFFFFF;
  return r;
}
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t h, unsigned* n,
                                                         nvmlProcessInfo_v2_t* out) {
  return list_processes(h, n, out);
}
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t h, unsigned* n,
                                                      nvmlProcessInfo_v1_t* out) {
  return list_processes(h, n, out);
}
API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t h, unsigned* n,
                                                          nvmlProcessInfo_t*) {
  return list_no_processes(h, n);
}
API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t h, unsigned* n,
                                                          nvmlProcessInfo_v2_t*) {
  return list_no_processes(h, n);
}
API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t h, unsigned* n,
                                                       nvmlProcessInfo_v1_t*) {
  return list_no_processes(h, n);
}
API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t h, unsigned* n,
                                                            nvmlProcessInfo_t*) {
  return list_no_processes(h, n);
}
