// Initialisation, versions, devices and their attributes.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "softgpu/device/identity.h"
#include "softgpu/driver/state.h"
#include "wire/entry_point.h"

namespace softgpu {

thread_local int t_per_thread_default = 0;

namespace {
Driver* g_driver = nullptr;
constexpr int kDriverVersion = 13000;

int attribute(const DeviceState& d, CUdevice_attribute a, bool& known) {
  SharedDevice* s = d.engine->shared();
  known = true;
  switch ((int)a) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return 99 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return 100 << 10;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return 1 << 10;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 1000000;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 256;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 4 << 20;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return (int)s->multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 1536;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return 24;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return (int)s->compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return (int)s->compute_minor;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return d.ordinal + 1;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 2;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
      return (int)a == CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT ? 0 : 1;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: return 2;
    default: known = (int)a > 0 && (int)a < CU_DEVICE_ATTRIBUTE_MAX; return 0;
  }
}
}  // namespace

Driver* driver() {
  return g_driver && g_driver->pid == getpid() ? g_driver : nullptr;
}

DeviceState* device_at(int ordinal) {
  Driver* d = driver();
  return d && ordinal >= 0 && ordinal < (int)d->devices.size() ? d->devices[(size_t)ordinal].get()
                                                               : nullptr;
}

bool known(const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  return d->handles.count(h) > 0;
}
void remember(const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  d->handles.insert(h);
}
bool forget(const void* h) {
  Driver* d = driver();
  std::lock_guard lock(d->mutex);
  return d->handles.erase(h) > 0;
}

}  // namespace softgpu

using namespace softgpu;

API void busbar_per_thread_default(int on) {
  t_per_thread_default += on ? 1 : -1;
}
API int softgpu_fresh_memory_is_zero() {
  return 1;
}  // a promise to the session server: it need not clear what the driver hands out

API int refuse_call(const char* name, int result) {
  if (std::getenv("BUSBAR_SOFTGPU_VERBOSE"))
    std::fprintf(stderr, "software GPU: %s is not supported\n", name);
  return result;
}

API CUresult cuInit(unsigned flags) {
  static std::mutex once;
  std::lock_guard lock(once);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (g_driver) return g_driver->pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  auto* d = new Driver;
  d->config = config_from_environment();
  d->pid = getpid();
  for (int i = 0; i < d->config.count; ++i) {
    auto dev = std::make_unique<DeviceState>();
    dev->ordinal = i;
    dev->engine = Engine::open(i, d->config, true);
    if (!dev->engine) {
      delete d;
      return CUDA_ERROR_NO_DEVICE;
    }
    d->devices.push_back(std::move(dev));
  }
  if (!d->compiler.start()) {
    delete d;
    return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  }
  g_driver = d;
  return CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int* count) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = (int)driver()->devices.size();
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!device_at(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

#define DEVICE(d, dev)                              \
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED; \
  DeviceState* d = device_at(dev);                  \
  if (!d) return CUDA_ERROR_INVALID_DEVICE

API CUresult cuDeviceGetName(char* name, int length, CUdevice dev) {
  DEVICE(d, dev);
  (void)d;
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, (size_t)length, "Software GPU");
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  DEVICE(d, dev);
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  auto id = uuid_of(d->ordinal);
  std::memcpy(uuid->bytes, id.data(), id.size());
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return cuDeviceGetUuid(uuid, dev);
}
API CUresult cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  DEVICE(d, dev);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = d->engine->total_bytes();
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute a, CUdevice dev) {
  DEVICE(d, dev);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  bool known_attribute;
  *value = attribute(*d, a, known_attribute);
  return known_attribute ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  DEVICE(d, dev);
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = (int)d->engine->shared()->compute_major;
  *minor = (int)d->engine->shared()->compute_minor;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice dev) {
  DEVICE(d, dev);
  if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(id, (size_t)length, "0000:%02X:00.0", d->ordinal + 1);
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* id) {
  if (!driver()) return CUDA_ERROR_NOT_INITIALIZED;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (!dev || !id || std::sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3 ||
      !device_at((int)bus - 1))
    return CUDA_ERROR_INVALID_VALUE;
  *dev = (int)bus - 1;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  DEVICE(d, a);
  (void)d;
  if (!can || !device_at(b)) return CUDA_ERROR_INVALID_VALUE;
  *can = a != b;
  return CUDA_SUCCESS;
}

API CUresult cuGetErrorName(CUresult error, const char** name) {
  static const std::map<int, const char*> names = {
#define E(x) {x, #x}
      E(CUDA_SUCCESS),
      E(CUDA_ERROR_INVALID_VALUE),
      E(CUDA_ERROR_OUT_OF_MEMORY),
      E(CUDA_ERROR_NOT_INITIALIZED),
      E(CUDA_ERROR_DEINITIALIZED),
      E(CUDA_ERROR_NO_DEVICE),
      E(CUDA_ERROR_INVALID_DEVICE),
      E(CUDA_ERROR_INVALID_IMAGE),
      E(CUDA_ERROR_INVALID_CONTEXT),
      E(CUDA_ERROR_NO_BINARY_FOR_GPU),
      E(CUDA_ERROR_INVALID_PTX),
      E(CUDA_ERROR_JIT_COMPILER_NOT_FOUND),
      E(CUDA_ERROR_INVALID_SOURCE),
      E(CUDA_ERROR_FILE_NOT_FOUND),
      E(CUDA_ERROR_INVALID_HANDLE),
      E(CUDA_ERROR_NOT_FOUND),
      E(CUDA_ERROR_NOT_READY),
      E(CUDA_ERROR_ILLEGAL_ADDRESS),
      E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
      E(CUDA_ERROR_MISALIGNED_ADDRESS),
      E(CUDA_ERROR_ASSERT),
      E(CUDA_ERROR_LAUNCH_FAILED),
      E(CUDA_ERROR_NOT_PERMITTED),
      E(CUDA_ERROR_NOT_SUPPORTED),
      E(CUDA_ERROR_CONTEXT_IS_DESTROYED),
      E(CUDA_ERROR_ILLEGAL_INSTRUCTION),
      E(CUDA_ERROR_HARDWARE_STACK_ERROR),
      E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
      E(CUDA_ERROR_UNKNOWN)};
#undef E
  auto it = names.find(error);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = it == names.end() ? nullptr : it->second;
  return it == names.end() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult error, const char** text) {
  return cuGetErrorName(error, text);
}

API CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, found = false;
  for (unsigned i = 0; i < kEntryPointCount; ++i) {
    const EntryPoint& e = kEntryPoints[i];
    if (std::strcmp(e.base, symbol)) continue;
    found = true;
    if (e.version > version || e.version > kDriverVersion) continue;
    if (!e.per_thread || per_thread)
      *function = e.function;  // rows ascend, a per-thread form follows its plain one
  }
  if (status)
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
              : found   ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
API CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
API CUresult cuGetExportTable(const void**, const CUuuid*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}  // it does not claim to be NVIDIA's driver
