// CUDA entry points: several copies in one call, and copies with hints. Hints do not change the
// result and are ignored. They only call functions of the driver, so the software GPU's driver
// contains this file too.
#include <cuda.h>

#include <initializer_list>

#include "array_element.h"
#include "checked_size.h"
#include "export.h"

static constexpr size_t kMaxElements = 1 << 20;  // of a batch

#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync

static bool is_order(unsigned order) {
  return order > CU_MEMCPY_SRC_ACCESS_ORDER_INVALID && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

// Attributes apply from the copy with their index on. The first index is 0.
static bool are_valid(const CUmemcpyAttributes* attributes, const size_t* first, size_t n,
                      size_t copies) {
  if (!attributes || !first || !n || n > copies || first[0]) return false;
  for (size_t i = 0; i < n; ++i)
    if (!is_order(attributes[i].srcAccessOrder) || first[i] >= copies ||
        (i && first[i] <= first[i - 1]))
      return false;
  return true;
}

API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t n,
                                   CUmemcpyAttributes* a, size_t* first, size_t attributes,
                                   CUstream s) {
  if (!to || !from || !bytes || !n || n > kMaxElements || !are_valid(a, first, attributes, n))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; ++i)
    if (CUresult r = cuMemcpyAsync(to[i], from[i], bytes[i], s)) return r;
  return CUDA_SUCCESS;
}
API CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t n,
                                CUmemcpyAttributes* a, size_t* i, size_t attributes, size_t* failed,
                                CUstream s) {
  if (failed) *failed = SIZE_MAX;
  return cuMemcpyBatchAsync_v2(to, from, bytes, n, a, i, attributes, s);
}
API CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t n,
                                         CUmemcpyAttributes* a, CUstream s) {
  return a ? cuMemcpyAsync(to, from, n, s) : CUDA_ERROR_INVALID_VALUE;
}

// Sets the bytes of an element if a side is an array. Returns false for an unknown array.
static bool element_of(const CUDA_MEMCPY3D_BATCH_OP& op, uint64_t& bytes) {
  CUDA_ARRAY3D_DESCRIPTOR d;
  for (auto* side : {&op.src, &op.dst})
    if (side->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
      if (cuArray3DGetDescriptor(&d, side->op.array.array)) return false;
      bytes = busbar::element_bytes(d);
    }
  return true;
}

// Converts a batch operation to a 3D copy. Its extent counts elements of the array; between two
// pointers it counts bytes. Returns false for an unknown array, an empty extent, or bytes that do
// not fit in 64 bits, or no order of access.
static bool as_3d(const CUDA_MEMCPY3D_BATCH_OP& op, CUDA_MEMCPY3D& out) {
  uint64_t element = 1;
  if (!is_order(op.srcAccessOrder) || !element_of(op, element)) return false;
  bool valid = true;
  auto bytes_of = [&](uint64_t elements) {
    CheckedSize bytes = CheckedSize(elements) * element;
    valid &= bytes.valid();
    return bytes.value();
  };
  out = {};
  auto pointer = [&](const CUmemcpy3DOperand& o, CUmemorytype& type, CUdeviceptr& p, size_t& pitch,
                     size_t& height) {
    type = CU_MEMORYTYPE_UNIFIED;
    p = o.op.ptr.ptr;
    pitch = bytes_of(o.op.ptr.rowLength);
    height = o.op.ptr.layerHeight;
  };
  auto array = [&](const CUmemcpy3DOperand& o, CUmemorytype& type, CUarray& a, size_t& x, size_t& y,
                   size_t& z) {
    type = CU_MEMORYTYPE_ARRAY;
    a = o.op.array.array;
    x = bytes_of(o.op.array.offset.x);
    y = o.op.array.offset.y;
    z = o.op.array.offset.z;
  };
  if (op.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
    array(op.src, out.srcMemoryType, out.srcArray, out.srcXInBytes, out.srcY, out.srcZ);
  else
    pointer(op.src, out.srcMemoryType, out.srcDevice, out.srcPitch, out.srcHeight);
  if (op.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
    array(op.dst, out.dstMemoryType, out.dstArray, out.dstXInBytes, out.dstY, out.dstZ);
  else
    pointer(op.dst, out.dstMemoryType, out.dstDevice, out.dstPitch, out.dstHeight);
  out.WidthInBytes = bytes_of(op.extent.width);
  out.Height = op.extent.height;
  out.Depth = op.extent.depth;
  return valid && out.WidthInBytes && out.Height && out.Depth;
}

API CUresult cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP* ops,
                                     unsigned long long flags, CUstream s) {
  if (!n || !ops || flags) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; ++i) {
    CUDA_MEMCPY3D p;
    if (!as_3d(ops[i], p)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = cuMemcpy3DAsync(&p, s)) return r;
  }
  return CUDA_SUCCESS;
}
API CUresult cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP* ops, size_t* failed,
                                  unsigned long long flags, CUstream s) {
  if (failed) *failed = SIZE_MAX;
  return cuMemcpy3DBatchAsync_v2(n, ops, flags, s);
}
API CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags,
                                           CUstream s) {
  return cuMemcpy3DBatchAsync_v2(1, op, flags, s);
}
