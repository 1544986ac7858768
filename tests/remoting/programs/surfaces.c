/* Surfaces: loads, stores and reductions, and what happens beyond the bounds of an array. */
#include "textures.h"

#define LOAD(name, form, to, at) WORDS(name, "suld.b." form " " to ", [%l1, " at "];")
#define STORE(name, form, at, value) WORDS(name, "sust.b." form " [%l1, " at "], " value ";")

static const char* const KERNELS = HEAD LOAD("load", "2d.b32.trap", "%r1", "{%r5, %r6}") LOAD(
    "load_clamped", "2d.b32.clamp", "%r1", "{%r5, %r6}") LOAD("load_or_zero", "2d.b32.zero", "%r1",
                                                              "{%r5, %r6}")
    LOAD("load_four", "2d.v4.b32.trap", "{%r1, %r2, %r3, %r4}", "{%r5, %r6}") LOAD(
        "load_byte", "1d.b8.trap", "%r1", "{%r5}") LOAD("load_3d", "3d.b32.trap", "%r1",
                                                        "{%r5, %r6, %r7, %r7}")
        LOAD("load_layer", "a2d.b32.trap", "%r1", "{%r8, %r5, %r6, %r6}") LOAD(
            "load_row", "a1d.b32.trap", "%r1", "{%r8, %r5}") STORE("store", "2d.b32.trap",
                                                                   "{%r5, %r6}", "%r7")
            STORE("store_clamped", "2d.b32.clamp", "{%r5, %r6}", "%r7") STORE(
                "store_inside", "2d.b32.zero", "{%r5, %r6}",
                "%r7") STORE("store_two", "2d.v2.b32.trap", "{%r5, %r6}", "{%r7, %r8}")
                STORE("store_byte", "1d.b8.trap", "{%r5}", "%r7")
                    STORE("store_3d", "3d.b32.trap", "{%r5, %r6, %r7, %r7}", "%r8")
                        STORE("store_layer", "a2d.b32.trap", "{%r8, %r5, %r6, %r6}", "%r7")
                            WORDS("add", "sured.b.add.2d.u32.trap [%l1, {%r5, %r6}], %r7;")
                                WORDS("minimum", "sured.b.min.2d.s32.trap [%l1, {%r5, %r6}], %r7;")
                                    WORDS("or", "sured.b.or.2d.b32.trap [%l1, {%r5, %r6}], %r7;")
    /* all threads add 1 to element 0 */
    ".visible .entry count(.param .u64 object)\n{ .reg .b64 %l1; .reg .b32 %r1; mov.u32 %r1, 1;"
    "ld.param.u64 %l1, [object]; sured.b.add.2d.u32.trap [%l1, {0, 0}], %r1; ret; }\n";

static CUarray made(unsigned width, unsigned height, unsigned depth, CUarray_format format,
                    unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR d =
      shape(width, height, depth, format, flags | CUDA_ARRAY3D_SURFACE_LDST);
  CUarray a;
  OK(cuArray3DCreate(&a, &d));
  return a;
}

static CUsurfObject surface_of(CUarray a) {
  CUDA_RESOURCE_DESC r = resource_of_array(a);
  CUsurfObject s;
  OK(cuSurfObjectCreate(&s, &r));
  return s;
}

/* Coordinates: bytes of a row, then rows. */
static void use_two_dimensions(void) {
  CUarray a = made(8, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 0);
  CUsurfObject s = surface_of(a);
  unsigned texels[32], expected[32];
  for (unsigned i = 0; i < 32; ++i) texels[i] = expected[i] = 10 * i;
  copy_array(a, texels, 1);
  expect_word("load", "load", s, (struct Arguments){.i = 12, .j = 2}, 190);
  expect_word("load beyond", "load_clamped", s, (struct Arguments){.i = 400, .j = 2}, 230);
  expect_word("load before", "load_clamped", s, (struct Arguments){.i = -4u, .j = -1u}, 0);
  expect_word("load none", "load_or_zero", s, (struct Arguments){.i = 32, .j = 2}, 0);
  expect_word("load four", "load_four", s, (struct Arguments){.i = 16, .j = 1}, 120);
  printf("others: %u %u %u\n", words[1], words[2], words[3]);
  OK(run("store", s, (struct Arguments){.i = 4, .j = 1, .k = 7}));
  OK(run("store_clamped", s, (struct Arguments){.i = 999, .j = 999, .k = 8}));
  OK(run("store_inside", s, (struct Arguments){.i = 999, .j = 0, .k = 9}));
  OK(run("store_two", s, (struct Arguments){.i = 8, .j = 3, .k = 5, .layer = 6}));
  OK(run("add", s, (struct Arguments){.i = 8, .j = 1, .k = 1000}));
  OK(run("minimum", s, (struct Arguments){.i = 12, .j = 1, .k = -3u}));
  OK(run("or", s, (struct Arguments){.i = 16, .j = 1, .k = 0x80}));
  expected[9] = 7;
  expected[31] = 8;
  expected[26] = 5;
  expected[27] = 6;
  expected[10] += 1000;
  expected[11] = -3u;
  expected[12] |= 0x80;
  copy_array(a, texels, 0);
  for (unsigned i = 0; i < 32; ++i) {
    printf("%u ", texels[i]);
    if (texels[i] != expected[i]) printf("WRONG: element %u is not %u\n", i, expected[i]);
  }
  printf("\n");
  OK(cuSurfObjectDestroy(s));
  SHOW(cuSurfObjectDestroy(s)); /* once more */
  OK(cuArrayDestroy(a));
}

static void count_threads(void) {
  CUarray a = made(4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 0);
  CUsurfObject s = surface_of(a);
  CUfunction f;
  void* params[] = {&s};
  OK(cuModuleGetFunction(&f, kernels, "count"));
  OK(cuLaunchKernel(f, 64, 1, 1, 128, 1, 1, 0, 0, params, 0));
  expect_word("threads", "load", s, (struct Arguments){0}, 64 * 128);
  OK(cuSurfObjectDestroy(s));
  OK(cuArrayDestroy(a));
}

static void use_other_dimensions(void) {
  CUarray bytes = made(16, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 0),
          solid = made(4, 4, 4, CU_AD_FORMAT_UNSIGNED_INT32, 0),
          layers = made(4, 4, 3, CU_AD_FORMAT_UNSIGNED_INT32, CUDA_ARRAY3D_LAYERED),
          rows = made(4, 0, 3, CU_AD_FORMAT_UNSIGNED_INT32, CUDA_ARRAY3D_LAYERED);
  unsigned numbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  CUsurfObject s = surface_of(bytes), three = surface_of(solid), planes = surface_of(layers);
  copy_array(rows, numbers, 1);
  OK(run("store_byte", s, (struct Arguments){.i = 5, .k = 0x1234}));
  expect_word("byte", "load_byte", s, (struct Arguments){.i = 5}, 0x34);
  OK(run("store_3d", three, (struct Arguments){.i = 4, .j = 2, .k = 3, .layer = 77}));
  expect_word("3D", "load_3d", three, (struct Arguments){.i = 4, .j = 2, .k = 3}, 77);
  expect_word("3D beside", "load_3d", three, (struct Arguments){.i = 4, .j = 2, .k = 2}, 0);
  OK(run("store_layer", planes, (struct Arguments){.i = 8, .j = 1, .k = 55, .layer = 2}));
  expect_word("layer", "load_layer", planes, (struct Arguments){.i = 8, .j = 1, .layer = 2}, 55);
  expect_word("row", "load_row", surface_of(rows), (struct Arguments){.i = 8, .layer = 1}, 6);
}

static void use_level(void) {
  CUDA_ARRAY3D_DESCRIPTOR d =
      shape(16, 16, 0, CU_AD_FORMAT_UNSIGNED_INT32, CUDA_ARRAY3D_SURFACE_LDST);
  CUmipmappedArray m;
  CUarray level;
  OK(cuMipmappedArrayCreate(&m, &d, 3));
  OK(cuMipmappedArrayGetLevel(&level, m, 2));
  CUsurfObject s = surface_of(level);
  OK(run("store", s, (struct Arguments){.i = 4, .j = 3, .k = 99}));
  expect_word("level", "load", s, (struct Arguments){.i = 4, .j = 3}, 99);
}

static void show_errors(void) {
  CUDA_ARRAY3D_DESCRIPTOR d = shape(4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 0);
  CUarray plain, a = made(8, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 0);
  CUsurfObject s = surface_of(a);
  OK(cuArray3DCreate(&plain, &d));
  CUDA_RESOURCE_DESC r = resource_of_array(plain), linear, found;
  SHOW(cuSurfObjectCreate(&s, &r));
  memset(&linear, 0, sizeof linear);
  linear.resType = CU_RESOURCE_TYPE_LINEAR;
  linear.res.linear.devPtr = out;
  linear.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
  linear.res.linear.numChannels = 1;
  linear.res.linear.sizeInBytes = 16;
  SHOW(cuSurfObjectCreate(&s, &linear));
  OK(cuSurfObjectGetResourceDesc(&found, s));
  printf("resource: %d %d\n", (int)found.resType, found.res.array.hArray == a);
  SHOW(run("load", s, (struct Arguments){.i = 32}));
}

int main(void) {
  prepare(KERNELS);
  use_two_dimensions();
  count_threads();
  use_other_dimensions();
  use_level();
  show_errors();
  return 0;
}
