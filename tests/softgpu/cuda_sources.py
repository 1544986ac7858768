"""CUDA C++ sources of the programs in cuda_programs.py."""

SCALE = """\
extern "C" __global__ void scale(float* p, float k, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= k;
}
"""

TEXTURE = """\
extern "C" __global__ void read(cudaTextureObject_t t, const float* x, const float* y, float* out,
                                int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex2D<float>(t, x[i], y[i]);
}
"""

COOPERATIVE = """\
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void steps(int* data, int n) {
  cg::grid_group grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x, next = (i + 37) % n;
  for (int k = 0; k < 5; ++k) {
    int v = data[next];
    grid.sync();
    data[i] = v + 1;
    grid.sync();
  }
}
__device__ __noinline__ int around(int v, int* shared) {
  shared[threadIdx.x] = v;
  __syncthreads();
  int r = shared[(threadIdx.x + 1) % blockDim.x];
  __syncthreads();
  return r;
}
extern "C" __global__ void rotate(int* data, int times) {
  __shared__ int s[128];
  int v = data[threadIdx.x];
  for (int k = 0; k < times; ++k) v = around(v, s);
  data[threadIdx.x] = v;
}
"""

CALLS = """\
typedef int (*Op)(int, int);
__device__ __noinline__ int add(int a, int b) {
  return a + b;
}
__device__ __noinline__ int sub(int a, int b) {
  return a - b;
}
__device__ __noinline__ int power(int a, int b) {
  return b <= 0 ? 1 : a * power(a, b - 1);
}
__device__ Op table[3] = {add, sub, power};
struct Base {
  __device__ virtual int f(int x) { return x; }
};
struct Derived : Base {
  int k;
  __device__ Derived(int k) : k(k) {}
  __device__ int f(int x) override { return x * k; }
};
extern "C" __global__ void calls(const int* which, int* out) {
  int i = threadIdx.x;
  out[i] = table[which[i] % 3](i, 3);
}
extern "C" __global__ void heap(int* out) {
  int i = threadIdx.x;
  Base* b = i & 1 ? new Derived(i) : new Base();
  int* p = (int*)malloc(40);
  p[9] = b->f(10);
  out[i] = p[9];
  free(p);
  delete b;
}
"""

ASSERT = """\
extern "C" __global__ void check(int n) {
  assert(n < 5);
}
"""

CUB = """\
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
extern "C" __global__ void block(const int* in, int* sum, int* scan, unsigned* sorted, int* warps) {
  typedef cub::BlockReduce<int, 128> Reduce;
  typedef cub::BlockScan<int, 128> Scan;
  typedef cub::BlockRadixSort<unsigned, 128, 4> Sort;
  typedef cub::WarpReduce<int> Warp;
  __shared__ union {
    typename Reduce::TempStorage r;
    typename Scan::TempStorage s;
    typename Sort::TempStorage o;
    typename Warp::TempStorage w[4];
  } t;
  int v = in[threadIdx.x], total = Reduce(t.r).Sum(v), out;
  __syncthreads();
  if (threadIdx.x == 0) *sum = total;
  Scan(t.s).InclusiveSum(v, out);
  scan[threadIdx.x] = out;
  __syncthreads();
  unsigned keys[4];
  for (int i = 0; i < 4; ++i) keys[i] = (unsigned)in[threadIdx.x * 4 + i];
  Sort(t.o).Sort(keys);
  for (int i = 0; i < 4; ++i) sorted[threadIdx.x * 4 + i] = keys[i];
  __syncthreads();
  int most = Warp(t.w[threadIdx.x / 32]).Reduce(v, cuda::maximum<>{});
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
}
"""

BARRIER = """\
#include <cuda/atomic>
#include <cuda/barrier>
extern "C" __global__ void rounds(int* data) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int s[96];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int k = 0; k < 4; ++k) {
    s[threadIdx.x] = data[threadIdx.x];
    bar.arrive_and_wait();
    data[threadIdx.x] = s[95 - threadIdx.x] + k;
    bar.arrive_and_wait();
  }
}
extern "C" __global__ void flags(int* word) {
  cuda::atomic_ref<int, cuda::thread_scope_device> w(*word);
  if (threadIdx.x == 0) {
    while (w.load(cuda::memory_order_acquire) == 0) {
    }
    w.store(2, cuda::memory_order_release);
  } else if (threadIdx.x == 1)
    w.store(1, cuda::memory_order_release);
}
"""

WMMA = """\
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void tile(const half* a, const half* b, float* c, int k) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 1.0f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(fa, a + i, k);
    wmma::load_matrix_sync(fb, b + i, k);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2;
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
extern "C" __global__ void bytes(const signed char* a, const signed char* b, int* c) {
  wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::col_major> fa;
  wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 32, 8, 16, int> fc;
  wmma::fill_fragment(fc, 0);
  wmma::load_matrix_sync(fa, a, 32);
  wmma::load_matrix_sync(fb, b, 8);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 32, wmma::mem_col_major);
}
"""
