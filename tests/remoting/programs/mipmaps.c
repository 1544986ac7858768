/* Textures of mipmapped, layered, cubic and three-dimensional arrays. */
#include "textures.h"

static const struct Kernel table[] = {
    FLOATS("base", "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f5, %f6}];"),
    FLOATS("level", "tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f5, %f6}], %f8;"),
    FLOATS(
        "grad",
        "mov.f32 %f9, 0f00000000; tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f5, %f6}],"
        " {%f8, %f9}, {%f9, %f8};"),
    FLOATS("a1d", "tex.a1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%r8, %f5}];"),
    FLOATS("a2d", "tex.a2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%r8, %f5, %f6, %f6}];"),
    FLOATS("voxel", "tex.3d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f5, %f6, %f7, %f7}];"),
    FLOATS("cube", "tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f5, %f6, %f7, %f7}];"),
    FLOATS("acube", "tex.acube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%r8, %f5, %f6, %f7}];"),
    FLOATS("gather", "tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f5, %f6}];"),
    FLOATS("beside",
           "tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%l1, {%f5, %f6}], %f8, {1, -1};"),
    FLOATS("columns", "txq.level.width.b32 %r1, [%l1], 1; cvt.rn.f32.u32 %f1, %r1;"),
    FLOATS("levels", "txq.num_mipmap_levels.b32 %r1, [%l1]; cvt.rn.f32.u32 %f1, %r1;"),
};

static CUmipmappedArray make_mipmap(unsigned width, unsigned height, unsigned levels) {
  CUDA_ARRAY3D_DESCRIPTOR d = shape(width, height, 0, CU_AD_FORMAT_FLOAT, 0);
  CUmipmappedArray m;
  OK(cuMipmappedArrayCreate(&m, &d, levels));
  return m;
}

/* Texel number n of a level has the value 100 * level + n. */
static void fill_levels(CUmipmappedArray m, unsigned levels) {
  float texels[128];
  for (unsigned level = 0; level < levels; ++level) {
    CUarray a;
    OK(cuMipmappedArrayGetLevel(&a, m, level));
    for (int i = 0; i < 128; ++i) texels[i] = 100.0f * (float)level + (float)i;
    copy_array(a, texels, 1);
    memset(texels, 0, sizeof texels);
    copy_array(a, texels, 0);
    printf("level %u begins with %g %g\n", level, texels[0], texels[1]);
  }
}

static CUtexObject texture_of_mipmap(CUmipmappedArray m, CUfilter_mode filter, float bias,
                                     float low, float high) {
  CUDA_RESOURCE_DESC r;
  CUDA_TEXTURE_DESC t;
  CUtexObject texture;
  memset(&r, 0, sizeof r);
  memset(&t, 0, sizeof t);
  r.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  r.res.mipmap.hMipmappedArray = m;
  t.addressMode[0] = t.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
  t.flags = CU_TRSF_NORMALIZED_COORDINATES;
  t.mipmapFilterMode = filter;
  t.mipmapLevelBias = bias;
  t.minMipmapLevelClamp = low;
  t.maxMipmapLevelClamp = high;
  OK(cuTexObjectCreate(&texture, &r, &t, 0));
  return texture;
}

static CUtexObject texture_of_array(CUarray a, unsigned flags, CUfilter_mode filter) {
  CUDA_RESOURCE_DESC r = resource_of_array(a);
  CUDA_TEXTURE_DESC t;
  CUtexObject texture;
  memset(&t, 0, sizeof t);
  t.addressMode[0] = t.addressMode[1] = t.addressMode[2] = CU_TR_ADDRESS_MODE_CLAMP;
  t.filterMode = filter;
  t.flags = flags;
  OK(cuTexObjectCreate(&texture, &r, &t, 0));
  return texture;
}

static void use_levels(void) {
  CUmipmappedArray m = make_mipmap(16, 8, 100);
  fill_levels(m, 5);
  CUtexObject near = texture_of_mipmap(m, CU_TR_FILTER_MODE_POINT, 0, 0, 10);
  expect("base level", "base", near, (struct Arguments){.x = 0.5f}, 8);
  expect("level 0.4", "level", near, (struct Arguments){.level = 0.4f}, 0);
  expect("level 1.6", "level", near, (struct Arguments){.level = 1.6f}, 200);
  expect("texel of level 1", "level", near, (struct Arguments){0.5f, 0.5f, 0, 1, 0, 0, 0, 0}, 120);
  expect("level 9", "level", near, (struct Arguments){.level = 9}, 400);
  expect("level -3", "level", near, (struct Arguments){.level = -3}, 0);
  expect("four texels of 16", "grad", near, (struct Arguments){.level = 0.25f}, 200);
  CUtexObject mixed = texture_of_mipmap(m, CU_TR_FILTER_MODE_LINEAR, 0, 0, 10);
  expect("between levels", "level", mixed, (struct Arguments){.level = 1.25f}, 125);
  CUtexObject biased = texture_of_mipmap(m, CU_TR_FILTER_MODE_LINEAR, 1, 0.5f, 2);
  expect("bias", "level", biased, (struct Arguments){.level = 0.5f}, 150);
  expect("upper clamp", "level", biased, (struct Arguments){.level = 3}, 200);
  expect("lower clamp", "level", biased, (struct Arguments){.level = -3}, 50);
  CUDA_RESOURCE_DESC r;
  OK(cuTexObjectGetResourceDesc(&r, near));
  printf("resource: %d %d\n", (int)r.resType, r.res.mipmap.hMipmappedArray == m);
  OK(cuTexObjectDestroy(near));
  OK(cuTexObjectDestroy(mixed));
  OK(cuTexObjectDestroy(biased));
  OK(cuMipmappedArrayDestroy(m));
}

static void show_errors(void) {
  CUDA_ARRAY3D_DESCRIPTOR d = shape(16, 8, 0, CU_AD_FORMAT_FLOAT, 0), found;
  CUmipmappedArray m = make_mipmap(16, 8, 0), freed = make_mipmap(16, 8, 5);
  CUarray level, a;
  OK(cuMipmappedArrayGetLevel(&level, freed, 4));
  OK(cuArray3DGetDescriptor(&found, level));
  printf("last level: %zu x %zu x %zu\n", found.Width, found.Height, found.Depth);
  OK(cuMipmappedArrayDestroy(freed));
  SHOW(cuMipmappedArrayGetLevel(&level, m, 1));
  SHOW(cuMipmappedArrayGetLevel(0, m, 0));
  SHOW(cuMipmappedArrayCreate(0, &d, 1));
  SHOW(cuMipmappedArrayCreate(&m, 0, 1));
  CUDA_ARRAY3D_DESCRIPTOR cube = shape(4, 4, 5, CU_AD_FORMAT_FLOAT, CUDA_ARRAY3D_CUBEMAP);
  SHOW(cuArray3DCreate(&a, &cube));
  CUDA_ARRAY3D_DESCRIPTOR flat = shape(4, 0, 5, CU_AD_FORMAT_FLOAT, 0);
  SHOW(cuArray3DCreate(&a, &flat));
  OK(cuMipmappedArrayDestroy(m));
}

static CUarray filled_array(CUDA_ARRAY3D_DESCRIPTOR d) {
  float texels[512];
  CUarray a;
  for (int i = 0; i < 512; ++i) texels[i] = (float)i;
  OK(cuArray3DCreate(&a, &d));
  copy_array(a, texels, 1);
  return a;
}

static void use_layers(void) {
  CUarray rows = filled_array(shape(8, 0, 3, CU_AD_FORMAT_FLOAT, CUDA_ARRAY3D_LAYERED));
  CUarray planes = filled_array(shape(8, 4, 3, CU_AD_FORMAT_FLOAT, CUDA_ARRAY3D_LAYERED));
  CUarray solid = filled_array(shape(4, 4, 4, CU_AD_FORMAT_FLOAT, 0));
  CUtexObject a1d = texture_of_array(rows, 0, CU_TR_FILTER_MODE_POINT),
              a2d = texture_of_array(planes, 0, CU_TR_FILTER_MODE_LINEAR),
              points = texture_of_array(solid, 0, CU_TR_FILTER_MODE_POINT),
              linear = texture_of_array(solid, 0, CU_TR_FILTER_MODE_LINEAR);
  expect("layer of rows", "a1d", a1d, (struct Arguments){.x = 3.5f, .layer = 2}, 19);
  expect("layer 9 of 3", "a1d", a1d, (struct Arguments){.x = 3.5f, .layer = 9}, 19);
  expect("layer of planes", "a2d", a2d, (struct Arguments){.x = 2, .y = 1.5f, .layer = 1}, 41.5f);
  expect("voxel", "voxel", points, (struct Arguments){.x = 1.5f, .y = 2.5f, .z = 3.5f}, 57);
  expect("between voxels", "voxel", linear, (struct Arguments){.x = 2, .y = 2, .z = 2}, 31.5f);
  expect("outside", "voxel", points, (struct Arguments){.x = -5, .y = 99, .z = 99}, 60);
  OK(cuTexObjectDestroy(a1d));
  OK(cuArrayDestroy(rows));
  OK(cuTexObjectDestroy(a2d));
  OK(cuArrayDestroy(planes));
}

static void use_cubes(void) {
  CUarray cube = filled_array(shape(4, 4, 6, CU_AD_FORMAT_FLOAT, CUDA_ARRAY3D_CUBEMAP));
  CUarray cubes = filled_array(
      shape(4, 4, 12, CU_AD_FORMAT_FLOAT, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED));
  unsigned normalized = CU_TRSF_NORMALIZED_COORDINATES;
  CUtexObject t = texture_of_array(cube, normalized, CU_TR_FILTER_MODE_POINT),
              layers = texture_of_array(cubes, normalized, CU_TR_FILTER_MODE_POINT);
  const float at[6][3] = {{1, .1f, .1f},  {-1, .1f, .1f}, {.1f, 1, .1f},
                          {.1f, -1, .1f}, {.1f, .1f, 1},  {.1f, .1f, -1}};
  const float texel[6] = {5, 22, 42, 54, 70, 85}; /* of 16 in each face */
  for (int face = 0; face < 6; ++face) {
    struct Arguments a = {.x = at[face][0], .y = at[face][1], .z = at[face][2], .layer = 1};
    expect("face", "cube", t, a, texel[face]);
    expect("face of cube 1", "acube", layers, a, 96 + texel[face]);
  }
  OK(cuTexObjectDestroy(t));
  OK(cuTexObjectDestroy(layers));
}

static void gather(void) {
  CUarray a = filled_array(shape(4, 4, 0, CU_AD_FORMAT_FLOAT, CUDA_ARRAY3D_TEXTURE_GATHER));
  CUtexObject t = texture_of_array(a, 0, CU_TR_FILTER_MODE_POINT);
  float texels[4];
  expect("gathered", "gather", t, (struct Arguments){.x = 2, .y = 2}, 9);
  memcpy(texels, words, sizeof texels);
  printf("others: %g %g %g\n", texels[1], texels[2], texels[3]);
  OK(cuTexObjectDestroy(t));
}

static void queries(void) {
  CUmipmappedArray m = make_mipmap(16, 8, 5);
  fill_levels(m, 5);
  CUtexObject t = texture_of_mipmap(m, CU_TR_FILTER_MODE_POINT, 0, 0, 10);
  expect("texel beside it", "beside", t, (struct Arguments){0.5f, 0.5f, 0, 1, 0, 0, 0, 0}, 113);
  expect("levels", "levels", t, (struct Arguments){0}, 5);
  expect("columns of level 1", "columns", t, (struct Arguments){0}, 8);
  OK(cuTexObjectDestroy(t));
  OK(cuMipmappedArrayDestroy(m));
}

int main(void) {
  prepare(table);
  use_levels();
  show_errors();
  use_layers();
  use_cubes();
  gather();
  queries();
  return 0;
}
