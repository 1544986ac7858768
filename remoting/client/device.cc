// Initialisation, versions and devices: all answered from what the session learned when it opened.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <unordered_map>

#include "client/session.h"
#include "wire/entry_point.h"

using namespace busbar::client;

API void busbar_per_thread_default(int on) {
  t_per_thread_default += on ? 1 : -1;
}

// A function that is not there yet: said once by name, so that a user can tell us.
// Said once, here and to the node, whose launcher tells the appliance.
API int refuse_call(const char* name, int result) {
  static std::mutex mutex;
  static auto* said = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (!said->insert(name).second) return result;
  std::fprintf(stderr, "busbar: %s is not supported yet\n", name);
  if (session() && !session()->links.empty()) {
    busbar::wire::Encoder<> e(busbar::wire::Op::refused, 0);
    auto bytes = (uint32_t)std::min<size_t>(std::strlen(name), busbar::wire::kMaxCallName);
    e.put(bytes).raw(name, bytes);
    session()->links.front()->submit(e.finish(), e.size());
  }
  return result;
}

#define READY \
  if (!session()) return CUDA_ERROR_NOT_INITIALIZED
#define DEVICE(d, dev)                                                                    \
  READY;                                                                                  \
  if (dev < 0 || dev >= (int)session()->devices.size()) return CUDA_ERROR_INVALID_DEVICE; \
  Device* d = session()->devices[(size_t)dev].get()

API CUresult cuInit(unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult r = open_session()) return r;
  return session()->devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int* version) {  // allowed before cuInit: 13.0, the oldest driver
                                                 // we support, until the nodes are known
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = session() ? session()->driver_version : 13000;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int* count) {
  READY;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = (int)session()->devices.size();
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  DEVICE(d, ordinal);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = d->ordinal;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char* name, int length, CUdevice dev) {
  DEVICE(d, dev);
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, (size_t)length, "%s", d->name);
  return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  DEVICE(d, dev);
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  *uuid = d->uuid;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return cuDeviceGetUuid(uuid, dev);
}
API CUresult cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  DEVICE(d, dev);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = d->memory_bytes;
  return CUDA_SUCCESS;
}

// What does not work over a network is not promised, whatever the GPU itself could do.
static bool withheld(const Device& d, CUdevice_attribute a) {
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
  DEVICE(d, dev);
  if (!value || (int)a <= 0 || (size_t)a >= d->attributes.size() || !d->known[(size_t)a])
    return CUDA_ERROR_INVALID_VALUE;
  *value = withheld(*d, a) ? 0 : d->attributes[(size_t)a];
  return CUDA_SUCCESS;
}

API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  DEVICE(d, dev);
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
  *minor = d->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice dev) {
  DEVICE(d, dev);
  if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(id, (size_t)length, "%04X:%02X:%02X.0", d->pci_domain,
                d->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
                d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID]);
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* id) {
  READY;
  unsigned domain = 0, bus = 0, slot = 0;
  if (!out || !id || std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3)
    return CUDA_ERROR_INVALID_VALUE;
  for (auto& d : session()->devices)
    if (d->pci_domain == domain && d->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] == (int)bus &&
        d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID] == (int)slot) {
      *out = d->ordinal;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  DEVICE(x, a);
  (void)x;
  if (!can || b < 0 || b >= (int)session()->devices.size()) return CUDA_ERROR_INVALID_VALUE;
  *can = 0;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetLuid(char*, unsigned*, CUdevice dev) {
  DEVICE(d, dev);
  (void)d;
  return CUDA_ERROR_NOT_SUPPORTED;
}  // Windows has them

namespace {
struct ErrorText {
  const char* name;
  const char* text;
};
const ErrorText* error_text(CUresult error) {
  static const auto* known = new std::unordered_map<int, ErrorText>{
#define E(x, text) \
  {                \
    x, {           \
      #x, text     \
    }              \
  }
      E(CUDA_SUCCESS, "no error"),
      E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
      E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
      E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
      E(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
      E(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
      E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
      E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
      E(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
      E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
      E(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
      E(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
      E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        "the provided PTX was compiled with an unsupported toolchain."),
      E(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found"),
      E(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
      E(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
      E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
      E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
      E(CUDA_ERROR_NOT_READY, "device not ready"),
      E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
      E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
      E(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
      E(CUDA_ERROR_ASSERT, "device-side assert triggered"),
      E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
      E(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
      E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
      E(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
      E(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
      E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        "part or all of the requested memory range is already mapped"),
      E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        "pointer does not correspond to a registered memory region"),
      E(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
      E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
      E(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        "system has unsupported display driver / cuda driver combination"),
      E(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
      E(CUDA_ERROR_UNKNOWN, "unknown error")};
#undef E
  auto it = known->find(error);
  return it == known->end() ? nullptr : &it->second;
}
}  // namespace

API CUresult cuGetErrorName(CUresult error, const char** name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* e = error_text(error);
  *name = e ? e->name : nullptr;
  return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGetErrorString(CUresult error, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* e = error_text(error);
  *text = e ? e->text : nullptr;
  return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult* status) {
  static const auto* rows = [] {
    auto* m = new std::unordered_map<std::string, std::vector<const EntryPoint*>>;
    for (unsigned i = 0; i < kEntryPointCount; ++i)
      (*m)[kEntryPoints[i].base].push_back(&kEntryPoints[i]);
    return m;
  }();
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  auto it = rows->find(symbol);
  if (it != rows->end())
    for (auto* e : it->second)
      if (e->version <= version && (!e->per_thread || per_thread))
        *function = e->function;  // ascending
  if (status)
    *status = *function           ? CU_GET_PROC_ADDRESS_SUCCESS
              : it != rows->end() ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
API CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
