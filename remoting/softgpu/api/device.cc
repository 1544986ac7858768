// CUDA entry points: initialisation, version and devices.
#include <cstdio>
#include <cstring>
#include <optional>

#include "pci_address.h"
#include "softgpu/api/require.h"
#include "softgpu/device/identity.h"
#include "softgpu/driver/tensor_map.h"

using namespace softgpu;

namespace {
// Attributes that are the same for all devices.
constexpr struct {
  int attribute, value;
} kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 99 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 100 << 10},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1 << 10},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 << 10},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},         // kHz
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},  // kHz
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 256},  // bits
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1536},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 24},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
};

int bus_of(const DeviceState& d) {
  return d.index + 1;
}

// Return the value of an attribute, 0 if it does not apply; nullopt if there is no such attribute.
std::optional<int> attribute(const DeviceState& d, CUdevice_attribute a) {
  const DeviceConfig& c = d.engine->config();
  switch (a) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return (int)c.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return (int)c.compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return (int)c.compute_minor;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      return c.compute_major >= kMajorOfTensorMaps;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return bus_of(d);
    default: break;
  }
  for (auto& known : kAttributes)
    if (known.attribute == (int)a) return known.value;
  if ((int)a > 0 && (int)a < CU_DEVICE_ATTRIBUTE_MAX) return 0;
  return std::nullopt;
}
}  // namespace

API CUresult cuInit(unsigned flags) {
  return flags ? CUDA_ERROR_INVALID_VALUE : start_driver();
}

API CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int* count) {
  REQUIRE_DRIVER();
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = (int)driver()->devices.size();
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  REQUIRE_DRIVER();
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!device_at(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char* name, int length, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  (void)d;
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, (size_t)length, "Software GPU");
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  auto id = uuid_of(d->index);
  std::memcpy(uuid->bytes, id.data(), id.size());
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return cuDeviceGetUuid(uuid, dev);
}
API CUresult cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = d->engine->total_bytes();
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute a, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  auto found = attribute(*d, a);
  if (!found) {
    *value = 0;
    return CUDA_ERROR_INVALID_VALUE;
  }
  *value = *found;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = (int)d->engine->config().compute_major;
  *minor = (int)d->engine->config().compute_minor;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice dev) {
  REQUIRE_DEVICE_STATE(d, dev);
  if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(id, (size_t)length, "0000:%02X:00.0", bus_of(*d));
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* id) {
  REQUIRE_DRIVER();
  if (!dev || !id) return CUDA_ERROR_INVALID_VALUE;
  auto address = busbar::read_pci_address(id);
  for (auto& d : driver()->devices)
    if (address == busbar::PciAddress{.bus = (unsigned)bus_of(*d)}) {
      *dev = d->ordinal;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  REQUIRE_DEVICE_STATE(d, a);
  (void)d;
  if (!can || !device_at(b)) return CUDA_ERROR_INVALID_VALUE;
  *can = a != b;
  return CUDA_SUCCESS;
}
