/* Times driver-API calls as a program sees them; one JSON object of medians. The same source runs on the driver itself and remoted. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OK(call) do { CUresult r_ = (call); if (r_) { fprintf(stderr, "%s -> %d\n", #call, (int)r_); exit(1); } } while (0)
enum { BURST = 1000, BURSTS = 40, PINGS = 500, ALLOCS = 200, COPIES = 5 };

static const char *PTX = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing(.param .u64 a, .param .u32 b)\n{ ret; }\n";
static double samples[BURST * BURSTS];

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec * 1e9 + (double)t.tv_nsec; }
static int ascending(const void *a, const void *b) { double x = *(const double *)a, y = *(const double *)b; return (x > y) - (x < y); }
static double at(int n, double share) { qsort(samples, (size_t)n, sizeof samples[0], ascending); return samples[(int)((n - 1) * share)]; }

int main(void) {
  CUdevice d;
  CUcontext c;
  CUmodule m;
  CUfunction f;
  CUdeviceptr p = 0;
  CUevent e;
  unsigned b = 1;
  void *params[] = {&p, &b};
  double begin = now();
  OK(cuInit(0));
  OK(cuDeviceGet(&d, 0));
  OK(cuDevicePrimaryCtxRetain(&c, d));
  OK(cuCtxSetCurrent(c));
  OK(cuModuleLoadData(&m, PTX));
  OK(cuModuleGetFunction(&f, m, "nothing"));
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
  OK(cuCtxSynchronize());
  printf("{\"init_to_first_kernel_ms\": %.3f", (now() - begin) / 1e6);
  for (int k = 0; k < BURSTS; ++k) {
    for (int i = 0; i < BURST; ++i) { double t = now(); OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0)); samples[k * BURST + i] = now() - t; }
    OK(cuCtxSynchronize());
  }
  printf(", \"launch_enqueue_p50_ns\": %.0f", at(BURST * BURSTS, 0.5));
  printf(", \"launch_enqueue_p99_ns\": %.0f", at(BURST * BURSTS, 0.99));
  for (int i = 0; i < PINGS; ++i) { double t = now(); OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0)); OK(cuCtxSynchronize()); samples[i] = now() - t; }
  printf(", \"launch_and_synchronise_p50_us\": %.2f", at(PINGS, 0.5) / 1e3);
  OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < PINGS; ++i) { OK(cuEventRecord(e, 0)); double t = now(); cuEventQuery(e); samples[i] = now() - t; }
  printf(", \"event_query_p50_ns\": %.0f", at(PINGS, 0.5));
  OK(cuCtxSynchronize());
  for (int i = 0; i < ALLOCS; ++i) { double t = now(); OK(cuMemAlloc(&p, 2 << 20)); OK(cuMemFree(p)); samples[i] = now() - t; }
  printf(", \"allocate_and_free_2mib_p50_us\": %.2f", at(ALLOCS, 0.5) / 1e3);
  size_t bytes = 64u << 20;
  unsigned char *host;
  OK(cuMemHostAlloc((void **)&host, bytes, 0));
  OK(cuMemAlloc(&p, bytes));
  for (size_t i = 0; i < bytes; ++i) host[i] = (unsigned char)(i * 2654435761u >> 13);
  for (int i = 0; i < COPIES; ++i) { double t = now(); OK(cuMemcpyHtoD(p, host, bytes)); OK(cuCtxSynchronize()); samples[i] = now() - t; }
  printf(", \"host_to_device_64mib_gib_s\": %.2f", 1e9 / 16 / at(COPIES, 0.5));
  for (int i = 0; i < COPIES; ++i) { double t = now(); OK(cuMemcpyDtoH(host, p, bytes)); samples[i] = now() - t; }
  printf(", \"device_to_host_64mib_gib_s\": %.2f}\n", 1e9 / 16 / at(COPIES, 0.5));
  return 0;
}
