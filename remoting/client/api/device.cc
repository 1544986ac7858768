// CUDA entry points: initialization, version and devices. They read the description that the nodes
// sent when the session opened.
#include "client/device.h"

#include <cstdio>

#include "client/api/require.h"
#include "client/open_session.h"
#include "pci_address.h"

using namespace busbar::client;

API CUresult cuInit(unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return initialize_cuda();
}

// Before cuInit, returns 13.0, the oldest supported driver.
API CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = has_session() ? session()->driver_version : 13000;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int* count) {
  REQUIRE_SESSION;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = (int)session()->devices.size();
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  REQUIRE_DEVICE(d, ordinal);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = d->ordinal;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char* name, int length, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, (size_t)length, "%s", d->name);
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  *uuid = d->uuid;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return cuDeviceGetUuid(uuid, dev);
}
API CUresult cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  d->link->poll_frames();
  *bytes = d->link->partition_size(d->remote).bytes;
  return CUDA_SUCCESS;
}

// Return whether an attribute is reported as 0 because the capability does not work over a network.
static bool is_withheld(const Device& d, CUdevice_attribute a) {
  switch ((int)a) {
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: return !d.heap;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED: return true;
    default: return false;
  }
}

API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute a, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!value || (int)a <= 0 || (size_t)a >= d->attributes.size() || !d->known[(size_t)a])
    return CUDA_ERROR_INVALID_VALUE;
  *value = is_withheld(*d, a) ? 0 : d->attributes[(size_t)a];
  return CUDA_SUCCESS;
}

API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
  *minor = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(id, (size_t)length, "%04X:%02X:%02X.0", d->pci_domain,
                d->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
                d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID]);
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* id) {
  REQUIRE_SESSION;
  if (!out || !id) return CUDA_ERROR_INVALID_VALUE;
  auto address = busbar::read_pci_address(id);
  for (Device* d : session()->devices)
    if (address == busbar::PciAddress{d->pci_domain,
                                      (unsigned)d->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
                                      (unsigned)d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID]}) {
      *out = d->ordinal;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  REQUIRE_DEVICE(x, a);
  (void)x;
  if (!can || b < 0 || b >= (int)session()->devices.size()) return CUDA_ERROR_INVALID_VALUE;
  *can = 0;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetLuid(char*, unsigned*, CUdevice dev) {
  REQUIRE_DEVICE(d, dev);
  (void)d;
  return CUDA_ERROR_NOT_SUPPORTED;  // exists on Windows only
}
