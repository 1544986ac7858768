/* Shared by the programs of textures and surfaces: arrays, kernels of one thread, and checks. */
#include "check.h"

#define ENTRY(name)                                                                        \
  ".visible .entry " name                                                                  \
  "(.param .u64 object, .param .u64 out, .param .f32 x, .param .f32 y, .param .f32 z,"     \
  " .param .f32 level, .param .u32 i, .param .u32 j, .param .u32 k, .param .u32 layer)\n{" \
  ".reg .b64 %l<6>; .reg .f32 %f<12>; .reg .b32 %r<12>; .reg .b16 %h<4>;"                  \
  "ld.param.u64 %l1, [object]; ld.param.u64 %l2, [out]; ld.param.f32 %f5, [x];"            \
  "ld.param.f32 %f6, [y]; ld.param.f32 %f7, [z]; ld.param.f32 %f8, [level];"               \
  "ld.param.u32 %r5, [i]; ld.param.u32 %r6, [j]; ld.param.u32 %r7, [k]; ld.param.u32 %r8, [layer];"
#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
/* Elements of a table of kernels. */
#define FLOATS(name, code) \
  {name, HEAD ENTRY(name) code "st.global.v4.f32 [%l2], {%f1, %f2, %f3, %f4}; ret; }\n"}
#define WORDS(name, code) \
  {name, HEAD ENTRY(name) code "st.global.v4.u32 [%l2], {%r1, %r2, %r3, %r4}; ret; }\n"}

/* Each is a module of its own, so that a refused instruction does not hide the others. */
struct Kernel {
  const char *name, *ptx;
};
enum { kMaxKernels = 32 };

struct Arguments {
  float x, y, z, level;
  unsigned i, j, k, layer;
};

static const struct Kernel* kernels;
static CUfunction functions[kMaxKernels]; /* null: not loaded yet */
static CUdeviceptr out;
static unsigned words[4];

static CUresult load(const char* name, CUfunction* f) {
  int n = 0;
  CUmodule m;
  while (strcmp(kernels[n].name, name)) ++n;
  CUresult r = functions[n] ? CUDA_SUCCESS : cuModuleLoadData(&m, kernels[n].ptx);
  if (!r && !functions[n]) OK(cuModuleGetFunction(&functions[n], m, name));
  *f = functions[n];
  return r;
}

static CUresult run(const char* name, unsigned long long object, struct Arguments a) {
  CUfunction f;
  CUresult r = load(name, &f);
  if (r) return r;
  void* params[] = {&object, &out, &a.x, &a.y, &a.z, &a.level, &a.i, &a.j, &a.k, &a.layer};
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
  r = cuCtxSynchronize();
  if (!r) OK(cuMemcpyDtoH(words, out, sizeof words));
  return r;
}

/* Run a kernel and compare the first float that it writes. */
__attribute__((unused)) static void expect(const char* what, const char* kernel,
                                           unsigned long long object, struct Arguments a,
                                           float expected) {
  float found;
  CUresult r = run(kernel, object, a);
  memcpy(&found, words, sizeof found);
  printf("%s: %d %g\n", what, (int)r, found);
  if (r || found != expected) printf("WRONG: %s is not %g\n", what, expected);
}

/* Run a kernel and compare the first word that it writes. */
__attribute__((unused)) static void expect_word(const char* what, const char* kernel,
                                                unsigned long long object, struct Arguments a,
                                                unsigned expected) {
  CUresult r = run(kernel, object, a);
  printf("%s: %d %u\n", what, (int)r, words[0]);
  if (r || words[0] != expected) printf("WRONG: %s is not %u\n", what, expected);
}

static CUDA_ARRAY3D_DESCRIPTOR shape(unsigned width, unsigned height, unsigned depth,
                                     CUarray_format format, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR d = {width, height, depth, format, 1, flags};
  return d;
}

/* Copy a whole array of 4-byte elements from or to packed memory. */
__attribute__((unused)) static void copy_array(CUarray a, void* memory, int to_array) {
  CUDA_ARRAY3D_DESCRIPTOR d;
  CUDA_MEMCPY3D c;
  OK(cuArray3DGetDescriptor(&d, a));
  memset(&c, 0, sizeof c);
  c.srcMemoryType = to_array ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
  c.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  c.srcHost = c.dstHost = memory;
  c.srcArray = c.dstArray = a;
  c.srcPitch = c.dstPitch = c.WidthInBytes = d.Width * 4;
  c.srcHeight = c.dstHeight = c.Height = d.Height ? d.Height : 1;
  c.Depth = d.Depth ? d.Depth : 1;
  OK(cuMemcpy3D(&c));
}

__attribute__((unused)) static CUDA_RESOURCE_DESC resource_of_array(CUarray a) {
  CUDA_RESOURCE_DESC r;
  memset(&r, 0, sizeof r);
  r.resType = CU_RESOURCE_TYPE_ARRAY;
  r.res.array.hArray = a;
  return r;
}

static void prepare(const struct Kernel* table) {
  kernels = table;
  create_context();
  OK(cuMemAlloc(&out, sizeof words));
}
