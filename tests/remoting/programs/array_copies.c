/* Rows of arrays, batches of copies and copies between devices: each copy moves its own bytes. */
#include "check.h"

static unsigned char data[256], result[256], expected[256];

static CUarray make_array(unsigned width, unsigned height) {
  CUDA_ARRAY_DESCRIPTOR d = {width, height, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  CUarray a;
  OK(cuArrayCreate(&a, &d));
  return a;
}

static void show(const char* what, size_t bytes) {
  printf("%s: %d %d\n", what, result[0], result[bytes - 1]);
  if (memcmp(result, expected, bytes)) printf("WRONG: %s\n", what);
  memset(result, 0, sizeof result);
}

static void copy_rows_of_arrays(CUdeviceptr p) {
  CUarray a = make_array(256, 0), b = make_array(256, 0);
  memset(expected, 0, sizeof expected);
  OK(cuMemcpyHtoA(a, 0, data, 256));
  OK(cuMemcpyAtoA(b, 0, a, 16, 100));
  OK(cuMemcpyAtoH(result, b, 0, 100));
  memcpy(expected, data + 16, 100);
  show("array to array", 100);
  OK(cuMemcpyAtoD(p, a, 8, 64));
  OK(cuMemcpyDtoA(b, 128, p, 64));
  OK(cuMemcpyAtoHAsync(result, b, 0, 256, 0));
  OK(cuStreamSynchronize(0));
  memcpy(expected + 128, data + 8, 64);
  show("array and device", 256);
  OK(cuMemcpyHtoAAsync(b, 3, data, 32, 0));
  OK(cuMemcpyAtoH(result, b, 0, 256));
  memcpy(expected + 3, data, 32);
  show("host to array", 256);
  SHOW(cuMemcpyAtoH(result, a, 200, 100));
  SHOW(cuMemcpyHtoA(0, 0, data, 16));
  OK(cuArrayDestroy(a));
  OK(cuArrayDestroy(b));
}

static void copy_batches(CUdeviceptr p) {
  CUdeviceptr to[2] = {p + 128, p + 16}, from[2] = {p, p + 64};
  size_t sizes[2] = {32, 8}, index = 0;
  CUmemcpyAttributes attributes;
  CUstream s;
  memset(&attributes, 0, sizeof attributes);
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  OK(cuStreamCreate(&s, 0));
  OK(cuMemcpyHtoD(p, data, 256));
  OK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &index, 1, s));
  OK(cuStreamSynchronize(s));
  OK(cuMemcpyDtoH(result, p, 256));
  memcpy(expected, data, 256);
  memcpy(expected + 128, data, 32);
  memcpy(expected + 16, data + 64, 8);
  show("batch", 256);
  SHOW(cuMemcpyBatchAsync(to, from, sizes, 0, &attributes, &index, 1, s));
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  SHOW(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &index, 1, s));
  CUarray a = make_array(16, 4);
  CUDA_MEMCPY3D_BATCH_OP op;
  memset(&op, 0, sizeof op);
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  op.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = p;
  op.src.op.ptr.rowLength = 32;
  op.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  op.dst.op.array.array = a;
  op.dst.op.array.offset.x = 4;
  op.extent.width = 12;
  op.extent.height = 3;
  op.extent.depth = 1;
  OK(cuMemcpy3DBatchAsync(1, &op, 0, s));
  OK(cuStreamSynchronize(s));
  OK(cuMemcpyAtoH(result, a, 0, 16));
  memmove(expected + 4, expected, 12);
  memset(expected, 0, 4);
  show("3D batch", 16);
  op.extent.width = 13;
  SHOW(cuMemcpy3DBatchAsync(1, &op, 0, s));
  op.extent.width = 12;
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  SHOW(cuMemcpy3DBatchAsync(1, &op, 0, s));
  OK(cuArrayDestroy(a));
}

static void copy_between_devices(CUdeviceptr p) {
  CUDA_MEMCPY3D_PEER c;
  memset(&c, 0, sizeof c);
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = p;
  c.dstDevice = p + 128;
  c.srcContext = c.dstContext = context;
  c.srcPitch = c.dstPitch = 16;
  c.WidthInBytes = 8;
  c.Height = 4;
  c.Depth = 1;
  OK(cuMemcpyHtoD(p, data, 256));
  OK(cuMemcpy3DPeer(&c));
  c.srcXInBytes = c.dstXInBytes = 8;
  OK(cuMemcpy3DPeerAsync(&c, 0));
  OK(cuMemcpyDtoH(result, p, 256));
  memcpy(expected, data, 256);
  for (int row = 0; row < 4; ++row) memcpy(expected + 128 + 16 * row, data + 16 * row, 16);
  show("peer", 256);
}

int main(void) {
  CUdeviceptr p;
  create_context();
  for (unsigned i = 0; i < sizeof data; ++i) data[i] = (unsigned char)(i * 7 + 1);
  OK(cuMemAlloc(&p, 256));
  copy_rows_of_arrays(p);
  copy_batches(p);
  copy_between_devices(p);
  return 0;
}
