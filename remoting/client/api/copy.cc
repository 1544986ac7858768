// CUDA entry points: copies between host and device memory.
#include "client/api/require.h"
#include "client/call.h"
#include "client/device_memory.h"
#include "client/host_function.h"
#include "client/mapped.h"
#include "client/row_copy.h"

using namespace busbar;
using namespace busbar::client;

// Captures a copy. Its host side becomes a staging buffer of the node.
static CUresult capture_copy(CUdeviceptr device, const void* host, size_t bytes, bool in,
                             CUstream stream) {
  CUDA_MEMCPY3D p{};
  (in ? p.srcMemoryType : p.dstMemoryType) = CU_MEMORYTYPE_HOST;
  (in ? p.dstMemoryType : p.srcMemoryType) = CU_MEMORYTYPE_DEVICE;
  (in ? p.dstDevice : p.srcDevice) = device;
  if (in)
    p.srcHost = host;
  else
    p.dstHost = (void*)host;
  p.WidthInBytes = bytes;
  p.Height = p.Depth = 1;
  return copy_rows(p, stream, false);
}

// Return whether the host side of a copy is managed memory, which lies on the device.
static bool is_managed(const void* p) {
  return has_host_mirrors() && has_session() &&
         session()->addresses.find((uint64_t)p).kind == Region::managed;
}

// Return whether both sides of a copy are memory of the host, which may be passed as device memory.
static bool is_on_host(CUdeviceptr device) {
  return has_session() && session()->addresses.find(device).on_host();
}

// Copies host memory that kernels use: its copy on the node is the newest, in the order of the
// stream.
static CUresult copy_in_mapped(Call& call, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                               CUstream stream) {
  if (CUresult r = wait_for_host_functions(call.context(), call.stream())) return r;
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

// Finds the address of the host side of a copy in its device copy on the node of the device side.
// If the host side has other device copies, waits until it is the newest, and sets `elsewhere`.
static CUresult find_device_copy(Call& call, const void* host, CUdeviceptr device, size_t bytes,
                                 CUdeviceptr& copy, bool& elsewhere) {
  if (!has_host_mirrors() || !bytes) return CUDA_SUCCESS;
  if (call.on_link(device)) copy = device_copy_of(call.link(), host, bytes);
  elsewhere = has_device_copies(host, bytes, copy ? call.link() : nullptr);
  return elsewhere ? settle_mapped(call.context(), call.stream()) : CUDA_SUCCESS;
}

static CUresult copy_in(CUdeviceptr to, const void* from, size_t bytes, CUstream stream,
                        bool synchronous) {
  if (is_managed(from)) return cuMemcpyDtoDAsync_v2(to, (CUdeviceptr)from, bytes, stream);
  if (is_on_host(to)) return cuMemcpyAsync(to, (CUdeviceptr)from, bytes, stream);
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  if (!from && bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!session()->addresses.device_range(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (call.stream()->capturing) return capture_copy(to, from, bytes, true, stream);
  CUdeviceptr copy = 0;
  bool elsewhere = false;
  if (CUresult r = find_device_copy(call, from, to, bytes, copy, elsewhere)) return r;
  if (copy) return copy_in_mapped(call, to, copy, bytes, stream);
  // Pageable memory of an asynchronous copy is read during the call, as CUDA documents it. Other
  // memory is read in the order of the stream, behind host functions that may write to it.
  if (synchronous || session()->addresses.find((uint64_t)from).on_host())
    if (CUresult r = wait_for_host_functions(call.context(), call.stream())) return r;
  if (bytes && !call.on_link(to))
    if (CUresult r = call.move_to_node_of(to)) return r;
  if (CUresult r = submit_upload(call.context(), call.stream(), to, from, bytes)) return r;
  // The bytes have been read. Later work of blocking streams is ordered behind the copy; work of
  // non-blocking streams is ordered by a wait only.
  bool must_wait = call.moved() || (synchronous && call.context()->non_blocking_streams.load() > 0);
  return must_wait ? wait_for_submitted(call.stream()) : CUDA_SUCCESS;
}

static CUresult copy_out(void* to, CUdeviceptr from, size_t bytes, CUstream stream,
                         bool synchronous) {
  if (is_managed(to)) return cuMemcpyDtoDAsync_v2((CUdeviceptr)to, from, bytes, stream);
  if (is_on_host(from)) return cuMemcpyAsync((CUdeviceptr)to, from, bytes, stream);
  Call call;
  if (CUresult r = call.begin(stream)) return r;
  if (!to && bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!session()->addresses.device_range(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (call.stream()->capturing) return capture_copy(from, to, bytes, false, stream);
  CUdeviceptr copy = 0;
  bool elsewhere = false;
  if (CUresult r = find_device_copy(call, to, from, bytes, copy, elsewhere)) return r;
  // Later kernels of the stream read the copy on the node.
  if (copy)
    if (CUresult r = cuMemcpyDtoDAsync_v2(copy, from, bytes, stream)) return r;
  if (bytes) {
    if (!call.on_link(from))
      if (CUresult r = call.move_to_node_of(from)) return r;
    wire::Encoder<> e(wire::Op::copy_out, call.context_id(), call.stream_id());
    e.put((uint64_t)from).put((uint64_t)bytes);
    e.put(copy ? expect_delivery(call.link(), Rows::flat(to, bytes), 0, bytes)
               : call.link()->expect_transfer(to, bytes));
    if (CUresult r = call.send(e.finish(), e.size())) return r;
  }
  bool pinned = session()->addresses.find((uint64_t)to).on_host();
  if (!synchronous && pinned && !elsewhere) return CUDA_SUCCESS;
  if (CUresult r = wait_for_submitted(call.stream())) return r;
  return synchronous && has_host_mirrors() ? fetch_mapped(call.context()) : CUDA_SUCCESS;
}

API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t n) {
  return copy_in(to, from, n, nullptr, true);
}
API CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  return copy_in(to, from, n, s, false);
}
API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t n) {
  return copy_out(to, from, n, nullptr, true);
}
API CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t n, CUstream s) {
  return copy_out(to, from, n, s, false);
}
