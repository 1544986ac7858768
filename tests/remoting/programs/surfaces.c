/* Surfaces: loads, stores and reductions, and what happens beyond the bounds of an array. */
#include "textures.h"

#define LOAD(name, form, to, at) WORDS(name, "suld.b." form " " to ", [%l1, " at "];")
#define STORE(name, form, at, value) WORDS(name, "sust.b." form " [%l1, " at "], " value ";")

static const struct Kernel table[] = {
    LOAD("load", "2d.b32.trap", "%r1", "{%r5, %r6}"),
    LOAD("load_clamped", "2d.b32.clamp", "%r1", "{%r5, %r6}"),
    LOAD("load_or_zero", "2d.b32.zero", "%r1", "{%r5, %r6}"),
    LOAD("load_four", "2d.v4.b32.trap", "{%r1, %r2, %r3, %r4}", "{%r5, %r6}"),
    WORDS("load_byte", "suld.b.1d.b8.trap %h1, [%l1, {%r5}]; cvt.u32.u16 %r1, %h1;"),
    LOAD("load_3d", "3d.b32.trap", "%r1", "{%r5, %r6, %r7, %r7}"),
    LOAD("load_layer", "a2d.b32.trap", "%r1", "{%r8, %r5, %r6, %r6}"),
    LOAD("load_row", "a1d.b32.trap", "%r1", "{%r8, %r5}"),
    STORE("store", "2d.b32.trap", "{%r5, %r6}", "%r7"),
    STORE("store_clamped", "2d.b32.clamp", "{%r5, %r6}", "%r7"),
    STORE("store_inside", "2d.b32.zero", "{%r5, %r6}", "%r7"),
    STORE("store_two", "2d.v2.b32.trap", "{%r5, %r6}", "{%r7, %r8}"),
    WORDS("store_byte", "cvt.u16.u32 %h1, %r7; sust.b.1d.b8.trap [%l1, {%r5}], %h1;"),
    STORE("store_3d", "3d.b32.trap", "{%r5, %r6, %r7, %r7}", "%r8"),
    STORE("store_layer", "a2d.b32.trap", "{%r8, %r5, %r6, %r6}", "%r7"),
    WORDS("add", "sured.b.add.2d.u32.trap [%l1, {%r5, %r6}], %r7;"),
    WORDS("minimum", "sured.b.min.2d.s32.trap [%l1, {%r5, %r6}], %r7;"),
    WORDS("or", "sured.b.or.2d.b32.trap [%l1, {%r5, %r6}], %r7;"),
    WORDS("store_texel", "sust.p.2d.v2.b32.trap [%l1, {%r5, %r6}], {%r7, %r8};"),
    WORDS("add_element", "sured.p.add.2d.b32.trap [%l1, {%r5, %r6}], %r7;"),
    WORDS("smaller", "sured.p.min.2d.b32.trap [%l1, {%r5, %r6}], %r7;"),
    WORDS("load_short", "suld.b.2d.b16.trap %h1, [%l1, {%r5, %r6}]; cvt.s32.s16 %r1, %h1;"),
    WORDS("rows", "suq.height.b32 %r1, [%l1];"),
    WORDS("format", "suq.channel_data_type.b32 %r1, [%l1];"),
    {"count", /* all threads add 1 to element 0 */
     HEAD ".visible .entry count(.param .u64 object)\n{ .reg .b64 %l1; .reg .b32 %r<3>;"
          "mov.u32 %r1, 1; mov.u32 %r2, 0; ld.param.u64 %l1, [object];"
          "sured.b.add.2d.u32.trap [%l1, {%r2, %r2}], %r1; ret; }\n"},
};

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
  SHOW(run("store", s, (struct Arguments){.i = 4, .j = 1, .k = 7}));
  SHOW(run("store_clamped", s, (struct Arguments){.i = 999, .j = 999, .k = 8}));
  SHOW(run("store_inside", s, (struct Arguments){.i = 999, .j = 0, .k = 9}));
  SHOW(run("store_two", s, (struct Arguments){.i = 8, .j = 3, .k = 5, .layer = 6}));
  SHOW(run("add", s, (struct Arguments){.i = 8, .j = 1, .k = 1000}));
  SHOW(run("minimum", s, (struct Arguments){.i = 12, .j = 1, .k = -3u}));
  SHOW(run("or", s, (struct Arguments){.i = 16, .j = 1, .k = 0x80}));
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
  OK(cuArrayDestroy(a));
}

/* Coordinates are texels; the format of the array counts: integers saturate. */
static void use_formats(void) {
  CUarray a = made(8, 4, 0, CU_AD_FORMAT_SIGNED_INT16, 0),
          words = made(8, 4, 0, CU_AD_FORMAT_SIGNED_INT32, 0);
  CUsurfObject s = surface_of(a), w = surface_of(words);
  int numbers[32] = {0};
  copy_array(words, numbers, 1);
  SHOW(run("store_texel", s, (struct Arguments){.i = 4, .j = 2, .k = 7}));
  SHOW(run("store_texel", s, (struct Arguments){.i = 3, .j = 2, .k = 70000, .layer = 9}));
  SHOW(run("store_texel", s, (struct Arguments){.i = 7, .j = 3, .k = -5u}));
  expect_word("saturated", "load_short", s, (struct Arguments){.i = 6, .j = 2}, 32767);
  expect_word("texel beside it", "load_short", s, (struct Arguments){.i = 8, .j = 2}, 7);
  expect_word("last texel", "load_short", s, (struct Arguments){.i = 14, .j = 3}, -5u);
  SHOW(run("add_element", w, (struct Arguments){.i = 5, .j = 1, .k = 40}));
  SHOW(run("smaller", w, (struct Arguments){.i = 5, .j = 1, .k = -3u}));
  SHOW(run("smaller", w, (struct Arguments){.i = 6, .j = 1, .k = 3}));
  expect_word("smallest", "load", w, (struct Arguments){.i = 20, .j = 1}, -3u);
  expect_word("smaller than 3", "load", w, (struct Arguments){.i = 24, .j = 1}, 0);
  expect_word("rows", "rows", w, (struct Arguments){0}, 4);
  expect_word("format", "format", w, (struct Arguments){0}, 0x10d9);
}

static void count_threads(void) {
  CUarray a = made(4, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 0);
  CUsurfObject s = surface_of(a);
  CUfunction f;
  void* params[] = {&s};
  CUresult r = load("count", &f);
  if (r) printf("WRONG: count is refused by %d\n", (int)r);
  if (!r) OK(cuLaunchKernel(f, 64, 1, 1, 128, 1, 1, 0, 0, params, 0));
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
  SHOW(run("store_byte", s, (struct Arguments){.i = 5, .k = 0x1234}));
  expect_word("byte", "load_byte", s, (struct Arguments){.i = 5}, 0x34);
  SHOW(run("store_3d", three, (struct Arguments){.i = 4, .j = 2, .k = 3, .layer = 77}));
  expect_word("3D", "load_3d", three, (struct Arguments){.i = 4, .j = 2, .k = 3}, 77);
  expect_word("3D beside", "load_3d", three, (struct Arguments){.i = 4, .j = 2, .k = 2}, 0);
  SHOW(run("store_layer", planes, (struct Arguments){.i = 8, .j = 1, .k = 55, .layer = 2}));
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
  SHOW(run("store", s, (struct Arguments){.i = 4, .j = 3, .k = 99}));
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
  prepare(table);
  use_two_dimensions();
  use_formats();
  count_threads();
  use_other_dimensions();
  use_level();
  show_errors();
  return 0;
}
