/* Tensor maps: the encodings, and an error for each value that is not documented as valid. */
#include <stdbool.h>
#include <stdint.h>

#include "check.h"

/* Arguments of all three functions; each row of a table changes one of them. */
struct Arguments {
  int type, rank, interleave, swizzle, promotion, fill, mode;
  uint64_t address, sizes[5], strides[4];
  cuuint32_t box[5], steps[5];
  int lower[3], upper[3];
  cuuint32_t channels, pixels;
};

static CUtensorMap map;
static int major; /* of the compute capability */

static struct Arguments valid(void) {
  struct Arguments a = {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                        .rank = 4,
                        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                        .address = 1 << 20,
                        .sizes = {64, 32, 16, 8, 4},
                        .strides = {128, 4096, 65536, 524288},
                        .box = {64, 8, 4, 2, 1},
                        .steps = {1, 1, 1, 1, 1},
                        .lower = {-1, -2, -3},
                        .upper = {1, 2, 3},
                        .channels = 64,
                        .pixels = 100};
  return a;
}

static CUresult tiled(const struct Arguments* a) {
  return cuTensorMapEncodeTiled(&map, a->type, a->rank, (void*)a->address, a->sizes, a->strides,
                                a->box, a->steps, a->interleave, a->swizzle, a->promotion, a->fill);
}
static CUresult im2col(const struct Arguments* a) {
  return cuTensorMapEncodeIm2col(&map, a->type, a->rank, (void*)a->address, a->sizes, a->strides,
                                 a->lower, a->upper, a->channels, a->pixels, a->steps,
                                 a->interleave, a->swizzle, a->promotion, a->fill);
}
static CUresult wide(const struct Arguments* a) {
  return cuTensorMapEncodeIm2colWide(
      &map, a->type, a->rank, (void*)a->address, a->sizes, a->strides, a->lower[0], a->upper[0],
      a->channels, a->pixels, a->steps, a->interleave, a->mode, a->swizzle, a->promotion, a->fill);
}

/* `expected` has 0 or 1 for each function: success or an error. */
static void show(const char* what, const char* expected, const struct Arguments* a) {
  CUresult (*const encode[])(const struct Arguments*) = {tiled, im2col, wide};
  printf("%s:", what);
  for (int i = 0; i < 3; ++i) {
    memset(&map, 0, sizeof map);
    CUresult r = encode[i](a);
    printf(" %d", r);
    if ((r != 0) != expected[i] - '0') printf(" WRONG");
  }
  printf("\n");
}

/* As show(), of what only newer devices have. */
static void show_new(const char* what, const char* expected, const struct Arguments* a) {
  CUresult (*const encode[])(const struct Arguments*) = {tiled, im2col, wide};
  for (int i = 0; i < 3; ++i) {
    CUresult r = encode[i](a);
    if ((r != 0) != (major < 10 || expected[i] == '1'))
      printf("WRONG: %s, function %d -> %d\n", what, i, (int)r);
  }
}

#define WITH(expected, change)    \
  do {                            \
    struct Arguments a = valid(); \
    change;                       \
    show(#change, expected, &a);  \
  } while (0)

static int element_bytes(int type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 4;
  }
}

/* A row of a swizzled map fits into 32, 64 or 128 bytes. */
static void swizzles(struct Arguments a) {
  static const char* names[] = {"", "32 bytes", "64 bytes", "128 bytes"};
  a.box[0] = a.channels = 16;
  for (a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; a.swizzle <= CU_TENSOR_MAP_SWIZZLE_128B; ++a.swizzle)
    show(names[a.swizzle], 16 * element_bytes(a.type) <= 16 << a.swizzle ? "000" : "111", &a);
  for (; a.swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B; ++a.swizzle)
    show_new("atoms", "000", &a);
  show("unknown", "111", &a);
}

static void types(void) {
  struct Arguments a = valid();
  a.sizes[0] = a.box[0] = a.channels = 128;
  a.strides[0] = 1024;
  a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  for (; a.type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ; ++a.type) {
    bool is_float = a.type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    printf("type %d ", a.type);
    show("plain", "000", &a);
    a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    show("with NaN", is_float ? "000" : "111", &a);
    a.fill = 0;
    swizzles(a);
  }
  for (; a.type <= CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B; ++a.type) show_new("packed", "000", &a);
  show("unknown type", "111", &a);
}

static void limits(void) {
  WITH("000", (void)a);
  WITH("111", a.rank = 0);
  WITH("011", a.rank = 1);
  WITH("011", a.rank = 2);
  WITH("000", a.rank = 3);
  WITH("000", a.rank = 5);
  WITH("111", a.rank = 6);
  WITH("111", a.address += 8);
  WITH("000", a.address += 16);
  WITH("000", a.address = 0);
  WITH("111", a.sizes[1] = 0);
  WITH("000", a.sizes[1] = (1ull << 31) - 1);
  WITH("011", a.sizes[1] = 1ull << 31);
  WITH("011", a.sizes[1] = 1ull << 32);
  WITH("111", a.sizes[1] = (1ull << 32) + 1);
  WITH("111", a.strides[1] += 8);
  WITH("000", a.strides[2] = 0);
  WITH("000", a.strides[2] = (1ull << 40) - 16);
  WITH("111", a.strides[2] = 1ull << 40);
  WITH("100", a.box[1] = 0);
  WITH("000", a.box[1] = 112); /* 112 KiB */
  WITH("000", a.box[1] = 224); /* 224 KiB */
  WITH("100", a.box[1] = 256); /* 256 KiB: more than shared memory has */
  WITH("000", a.box[1] = 256; a.box[2] = a.box[3] = 1);
  WITH("100", a.box[1] = 257);
  WITH("111", a.box[0] = a.channels = 4);
  WITH("111", a.box[0] = a.channels = 72);
  WITH("111", a.steps[0] = 0);
  WITH("111", a.steps[0] = 9);
  WITH("111", a.steps[1] = 0);
  WITH("000", a.steps[1] = 8);
  WITH("111", a.steps[1] = 9);
  WITH("000", a.interleave = 1);
  WITH("000", a.interleave = 2);
  WITH("000", a.interleave = 2; a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B);
  WITH("111", a.interleave = 2; a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; a.address += 16);
  WITH("111", a.interleave = 3);
  WITH("000", a.promotion = 3);
  WITH("111", a.promotion = 4);
  WITH("111", a.fill = 2);
  WITH("000", a.mode = 1);
  WITH("001", a.mode = 2);
  WITH("000", a.lower[1] = -128);
  WITH("010", a.lower[1] = -129);
  WITH("000", a.upper[0] = 127);
  WITH("011", a.upper[0] = 128);
  WITH("000", a.rank = 5; a.lower[2] = -16);
  WITH("010", a.rank = 5; a.lower[2] = -17);
  WITH("000", a.rank = 3; a.lower[0] = -32768);
  WITH("011", a.rank = 3; a.lower[0] = -32769);
  WITH("011", a.channels = 0);
  WITH("011", a.channels = 257);
  WITH("011", a.pixels = 0);
  WITH("000", a.pixels = 1024);
  WITH("011", a.pixels = 1025);
}

static void pointers(void) {
  struct Arguments a = valid();
  char room[sizeof map + 256];
  CUtensorMap* odd = (CUtensorMap*)(((uintptr_t)room + 127) / 128 * 128 + 32);
  SHOW(cuTensorMapEncodeTiled(0, a.type, 2, (void*)a.address, a.sizes, a.strides, a.box, a.steps, 0,
                              0, 0, 0));
  SHOW(cuTensorMapEncodeTiled(odd, a.type, 2, (void*)a.address, a.sizes, a.strides, a.box, a.steps,
                              0, 0, 0, 0));
  SHOW(cuTensorMapEncodeTiled(&map, a.type, 1, (void*)a.address, a.sizes, 0, a.box, a.steps, 0, 0,
                              0, 0));
  SHOW(cuTensorMapEncodeTiled(&map, a.type, 2, (void*)a.address, a.sizes, 0, a.box, a.steps, 0, 0,
                              0, 0));
}

/* A new address is the only change: the map is then as if encoded with it. */
static void addresses(void) {
  struct Arguments a = valid();
  CUtensorMap before, moved;
  OK(tiled(&a));
  before = map;
  a.address += 4096;
  OK(tiled(&a));
  moved = map;
  map = before;
  SHOW(cuTensorMapReplaceAddress(&map, (void*)a.address));
  printf("moved: %d\n", !memcmp(&map, &moved, sizeof map));
  SHOW(cuTensorMapReplaceAddress(&map, (void*)(a.address + 8)));
  SHOW(cuTensorMapReplaceAddress(&map, (void*)(a.address - 4096)));
  printf("as before: %d\n", !memcmp(&map, &before, sizeof map));
  SHOW(cuTensorMapReplaceAddress(0, (void*)a.address));
}

int main(void) {
  int supported;
  create_context();
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
  printf("supported: %d%s\n", supported, supported == (major >= 9) ? "" : " WRONG");
  types();
  limits();
  pointers();
  addresses();
  return 0;
}
