/* Occupancy of kernels with dynamic shared memory, and of clusters of thread blocks. */
#include "check.h"

enum { kSharedUnit = 128, kWarp = 32 }; /* bytes in which blocks get shared memory; threads */
static int sms, sm_threads, sm_blocks, sm_bytes, reserved_bytes, opt_in_bytes;
static int dynamic_limit = 48 << 10;

static int attribute(CUdevice_attribute a) {
  int value;
  OK(cuDeviceGetAttribute(&value, a, 0));
  return value;
}

static void read_device(void) {
  sms = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  sm_threads = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  sm_blocks = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  sm_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  reserved_bytes = attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  opt_in_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
}

static int least(int a, int b) {
  return a < b ? a : b;
}

static int blocks_of(int threads, size_t bytes) {
  int blocks = -1;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, threads, bytes));
  return blocks;
}

/* The kernel has few registers and no shared memory of its own. */
static int computed_blocks(int threads, size_t bytes) {
  if (threads > 1024 || bytes > (size_t)dynamic_limit) return 0;
  int warps = (threads + kWarp - 1) / kWarp;
  int each = ((int)bytes + reserved_bytes + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
  return least(least(sm_blocks, sm_threads / kWarp / warps), sm_bytes / each);
}

static void check_blocks(const char* what) {
  static const int threads[] = {1, 33, 100, 512, 1024, 1025};
  static const size_t bytes[] = {0, 1024, 40000, 48 << 10, 50000, 90000, 99 << 10, 100 << 10};
  for (unsigned t = 0; t < sizeof threads / sizeof *threads; ++t)
    for (unsigned b = 0; b < sizeof bytes / sizeof *bytes; ++b)
      if (blocks_of(threads[t], bytes[b]) != computed_blocks(threads[t], bytes[b]))
        printf("WRONG: %d blocks of %d threads and %zu bytes, not %d\n",
               blocks_of(threads[t], bytes[b]), threads[t], bytes[b],
               computed_blocks(threads[t], bytes[b]));
  printf("%s: blocks as computed\n", what);
}

/* Without what the driver reserves: so many blocks may not fit. */
static void check_available(const char* what) {
  for (int threads = 32; threads <= 1024; threads *= 2)
    for (int blocks = 1; blocks <= blocks_of(threads, 0); ++blocks) {
      size_t bytes = 0;
      int each = least(sm_bytes / blocks / kSharedUnit * kSharedUnit, opt_in_bytes);
      OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, bump, blocks, threads));
      if (bytes != (size_t)least(each, dynamic_limit))
        printf("WRONG: %zu bytes for %d blocks of %d threads, not %d\n", bytes, blocks, threads,
               least(each, dynamic_limit));
    }
  printf("%s: bytes as computed\n", what);
}

static size_t bytes_of(int threads) {
  return threads * 96u;
}

/* The largest block of those with which most threads run. */
static void check_block_size(const char* what, CUoccupancyB2DSize size_of, size_t bytes, int most) {
  int grid = -1, block = -1, best = 0, best_blocks = 0;
  for (int t = (most + kWarp - 1) / kWarp * kWarp; t > 0; t -= kWarp) {
    int threads = least(t, most), blocks = blocks_of(threads, size_of ? size_of(threads) : bytes);
    if (blocks * threads > best_blocks * best) best = threads, best_blocks = blocks;
  }
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, bump, size_of, bytes, most < 1024 ? most : 0));
  printf("%s: as computed\n", what);
  if (block != best || grid != best_blocks * sms)
    printf("WRONG: %d blocks of %d threads, not %d of %d\n", grid, block, best_blocks * sms, best);
}

static void block_sizes(void) {
  int grid = -1, block = -1;
  check_block_size("no memory", 0, 0, 1024);
  check_block_size("96 bytes a thread", bytes_of, 0, 1024);
  check_block_size("at most 200 threads", 0, 40000, 200);
  check_block_size("too much memory", 0, 1 << 20, 1024);
  SHOW(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, bump, 0, 0, 0, 2));
}

static CUlaunchConfig configuration(CUlaunchAttribute* cluster, unsigned x) {
  CUlaunchConfig c = {0};
  c.gridDimX = 16;
  c.gridDimY = c.gridDimZ = 1;
  c.blockDimX = 128;
  c.blockDimY = c.blockDimZ = 1;
  c.sharedMemBytes = 30000;
  memset(cluster, 0, sizeof *cluster);
  cluster->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster->value.clusterDim.x = x;
  cluster->value.clusterDim.y = cluster->value.clusterDim.z = 1;
  c.attrs = cluster;
  c.numAttrs = 1;
  return c;
}

static void clusters(void) {
  int n = -1;
  CUlaunchAttribute cluster;
  CUlaunchConfig c = configuration(&cluster, 1);
  SHOW(cuOccupancyMaxPotentialClusterSize(&n, bump, &c));
  printf("largest cluster: %d\n", n == 1 || n == 8); /* 8 if the device has clusters */
  SHOW(cuOccupancyMaxActiveClusters(&n, bump, &c));
  if (n != sms * blocks_of(128, 30000)) printf("WRONG: %d clusters of one block\n", n);
  c.sharedMemBytes = 200000;
  SHOW(cuOccupancyMaxActiveClusters(&n, bump, &c));
  printf("too much memory: %d\n", n);
  c = configuration(&cluster, 0);
  SHOW(cuOccupancyMaxActiveClusters(&n, bump, &c));
  SHOW(cuOccupancyMaxPotentialClusterSize(&n, bump, &c));
  c = configuration(&cluster, 1);
  c.numAttrs = 0;
  SHOW(cuOccupancyMaxActiveClusters(&n, bump, &c));
  c = configuration(&cluster, 1);
  c.blockDimY = 0;
  SHOW(cuOccupancyMaxActiveClusters(&n, bump, &c));
  c = configuration(&cluster, 1);
  cluster.id = (CUlaunchAttributeID)77;
  SHOW(cuOccupancyMaxActiveClusters(&n, bump, &c));
  SHOW(cuOccupancyMaxPotentialClusterSize(&n, bump, &c));
  c = configuration(&cluster, 1);
  c.attrs = 0;
  SHOW(cuOccupancyMaxActiveClusters(&n, bump, &c));
  SHOW(cuOccupancyMaxActiveClusters(0, bump, &c));
  SHOW(cuOccupancyMaxActiveClusters(&n, bump, 0));
  SHOW(cuOccupancyMaxActiveClusters(&n, 0, &c));
  SHOW(cuOccupancyMaxPotentialClusterSize(0, bump, &c));
  SHOW(cuOccupancyMaxPotentialClusterSize(&n, 0, &c));
}

int main(void) {
  create_context();
  read_device();
  check_blocks("default");
  check_available("default");
  block_sizes();
  dynamic_limit = 99 << 10;
  OK(cuFuncSetAttribute(bump, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_limit));
  check_blocks("99 KiB");
  check_available("99 KiB");
  clusters();
  int blocks;
  SHOW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, bump, 32, 0, 1));
  SHOW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, bump, 32, 0, 2));
  SHOW(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, 0, 0));
  SHOW(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, -1, 0));
  SHOW(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, 32, (size_t)-1));
  return 0;
}
