// CUDA entry points: cuGetExportTable, with the private tables that NVIDIA's runtime and libraries
// request from a driver.
//
// docs/nvidia.md documents the tables and their slots. A slot that no library is known to call
// returns CUDA_ERROR_NOT_SUPPORTED and prints a message once, so that new uses are found.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "client/api/require.h"
#include "client/context_storage.h"
#include "client/nvml_bridge.h"
#include "wire/self_test.h"

namespace busbar::client {

#ifdef BUSBAR_NVIDIA_RUNTIME
namespace {

using Slot = void*;
enum Table {
  runtime,
  hooks,
  thread_state,
  context_storage,
  context_checks,
  integrity,
  tools_context,
  tools_module,
  tensor,
  tables
};
const char* const kNames[tables] = {"runtime",         "hooks",          "thread state",
                                    "context storage", "context checks", "integrity",
                                    "tools context",   "tools module",   "1734"};

template <int kTable, int kSlot>
CUresult unknown_slot() {
  static std::atomic<bool> reported{false};
  if (!reported.exchange(true))
    std::fprintf(stderr, "busbar: slot %d of the private driver table \"%s\" is not supported\n",
                 kSlot, kNames[kTable]);
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- runtime ----
// Returns the handle of the primary context without a reference to it and without activating it.
CUresult primary_handle(CUcontext* out, CUdevice dev) {
  REQUIRE_SESSION;
  Device* d = find_device(dev);
  if (!out || !d) return CUDA_ERROR_INVALID_DEVICE;
  MutexLock lock(d->mutex);
  *out = (CUcontext)primary_context(d)->handle;
  return CUDA_SUCCESS;
}
CUresult load_compilers() {
  return CUDA_SUCCESS;
}
// The result of this slot is unknown; libraries work without it.
CUresult not_supported() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- hooks: flags of a profiler for each function; none is set ----
constexpr size_t kHooks = 4096, kOtherHooks = 64;
void api_hooks(void** out, size_t* n) {
  static uint32_t flags[kHooks];
  *out = flags;
  *n = kHooks;
}
void other_hooks(void** out, size_t* n) {
  static uint32_t flags[kOtherHooks];
  *out = flags;
  *n = kOtherHooks;
}

CUresult thread_context(CUcontext* out) {
  return cuCtxGetCurrent(out);
}

CUresult check_context(CUcontext, uint32_t* a, void** b) {
  if (a) *a = 0;
  if (b) *b = nullptr;
  return CUDA_SUCCESS;
}
uint32_t no_checks() {
  return 0;
}

// ---- integrity: the self-test, answered by the node if its own driver passes it ----
const Slot* table_of(Table t);

wire::SelfTestQuestion question(uint32_t version, uint64_t seconds) {
  int driver_version = 0;
  cuDriverGetVersion(&driver_version);
  return {(uint32_t)driver_version,
          version,
          (uint32_t)getpid(),
          (uint32_t)pthread_self(),
          (uint64_t)table_of(runtime),
          (uint64_t)table_of(integrity),
          (uint64_t)table_of(integrity)[1],
          seconds};
}

const char kSelfTestFailed[] =
    "busbar: the node's driver does not pass the self-test of NVIDIA's runtime (a software GPU "
    "never does); programs that use the runtime (nvcc <<<>>>, CuPy, cuBLAS, PyTorch) do not run "
    "there; programs of the driver API (Numba, PyCUDA, cuda-python, Triton kernels, C) do";

CUresult request_self_test(Link* link, const wire::SelfTestQuestion& q, uint64_t out[2]) {
  auto& devices = session()->devices;
  uint64_t id = link->next_id();
  wire::Encoder<4096> e(wire::Op::self_test, 0);
  e.put(id).put(q).put((uint64_t)devices.size());
  for (auto& d : devices) {
    wire::SelfTestDevice v{};
    std::memcpy(v.uuid, d->uuid.bytes, 16);
    v.domain = (int32_t)d->pci_domain;
    v.bus = d->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID];
    v.slot = d->attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID];
    e.put(v);
  }
  Reply reply = link->call(id, e.finish(), e.size());
  if (reply.status) return (CUresult)reply.status;
  wire::Decoder d(reply.body.data(), reply.body.size());
  out[0] = d.get<uint64_t>();
  out[1] = d.get<uint64_t>();
  return d.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// With several nodes, each one must pass its self-test; the first one's result is returned.
CUresult run_self_test(uint32_t version, uint64_t seconds, uint64_t out[2]) {
  REQUIRE_SESSION;
  wire::SelfTestQuestion q = question(version, seconds);
  uint64_t result[2] = {};
  for (size_t i = session()->links.size(); i-- > 0;) {
    if (request_self_test(session()->links[i].get(), q, result) == CUDA_SUCCESS) continue;
    static std::once_flag once;
    std::call_once(once, [] { std::fprintf(stderr, "%s\n", kSelfTestFailed); });
    out[0] = out[1] = 0;  // the runtime reports cudaErrorSoftwareValidityNotEstablished
    return CUDA_SUCCESS;
  }
  out[0] = result[0];
  out[1] = result[1];
  return CUDA_SUCCESS;
}

// ---- tools ----
CUresult context_number(CUcontext c, uint64_t* id) {
  unsigned long long v = 0;
  CUresult r = cuCtxGetId(c, &v);
  *id = v;
  return r;
}

// Returns what names a stream in `stream_number`, for stream 0 that of the legacy stream, or of the
// thread's own stream. cuBLAS and cuSOLVER call both for their workspaces.
CUresult stream_object(CUcontext handle, CUstream stream, CUstream* out, int per_thread) {
  REQUIRE_SESSION;
  Context* c = session()->contexts.get(handle);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  Stream* s = find_stream(!stream && per_thread ? CU_STREAM_PER_THREAD : stream, c);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  *out = s->legacy ? CU_STREAM_LEGACY : (CUstream)s->handle;
  return CUDA_SUCCESS;
}
CUresult stream_number(CUcontext handle, CUstream object, uint64_t* out) {
  REQUIRE_SESSION;
  Context* c = session()->contexts.get(handle);
  if (!c) return CUDA_ERROR_INVALID_CONTEXT;
  if (!object || !out) return CUDA_ERROR_INVALID_VALUE;
  Stream* s = find_stream(object, c);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  *out = s->id;
  return CUDA_SUCCESS;
}

// Calls `visit` for each function of the module. Returns their number.
int each_function(CUcontext, CUmodule m, void (*visit)(void*, CUfunction), void* data) {
  unsigned count = 0;
  if (cuModuleGetFunctionCount(&count, m) || !count) return 0;
  std::vector<CUfunction> list(count);
  if (cuModuleEnumerateFunctions(list.data(), count, m)) return 0;
  for (CUfunction f : list) visit(data, f);
  return (int)count;
}

// ---- the tables ----
struct Known {
  int slot;
  Slot function;
};

template <int kTable, size_t... kSlots>
const Slot* make(size_t bytes, std::index_sequence<kSlots...>, std::initializer_list<Known> known) {
  static Slot words[sizeof...(kSlots)] = {(Slot)unknown_slot<kTable, (int)kSlots>...};
  if (bytes) words[0] = (Slot)bytes;  // a table begins with its size
  for (auto& k : known) words[k.slot] = k.function;
  return words;
}
template <int kTable, size_t kWords>
const Slot* sized(std::initializer_list<Known> known) {
  // NOLINTNEXTLINE(custom-unchecked-product): both are constants
  return make<kTable>(kWords * sizeof(Slot), std::make_index_sequence<kWords>(), known);
}

const Slot* table_of(Table t) {
  static const Slot* const all[tables] = {
      sized<runtime, 13>({{2, (Slot)primary_handle}, {12, (Slot)load_compilers}}),
      sized<hooks, 7>({{2, (Slot)api_hooks}, {6, (Slot)other_hooks}}),
      sized<thread_state, 4>({{2, (Slot)thread_context}}),
      make<context_storage>(0, std::make_index_sequence<4>(),
                            {{0, (Slot)set_context_storage},
                             {1, (Slot)remove_context_storage},
                             {2, (Slot)get_context_storage}}),
      sized<context_checks, 4>({{2, (Slot)check_context}, {3, (Slot)no_checks}}),
      sized<integrity, 3>({{1, (Slot)run_self_test}}),
      sized<tools_context, 95>(
          {{4, (Slot)context_number}, {39, (Slot)stream_number}, {51, (Slot)stream_object}}),
      sized<tools_module, 64>({{7, (Slot)each_function}}),
      sized<tensor, 64>({{4, (Slot)not_supported}}),
  };
  return all[t];
}

constexpr uint8_t kIds[tables][16] = {
    {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
     0xf9},
    {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
     0x66},
    {0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
     0xdc},
    {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
     0x93},
    {0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
     0x7e},
    {0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
     0xf2},
    {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
     0xf2},
    {0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99,
     0x1e},
    {0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
     0xca},
};
}  // namespace

static CUresult export_table(const void** out, const CUuuid* id) {
  for (int t = 0; t < tables; ++t)
    if (!std::memcmp(id->bytes, kIds[t], 16)) {
      *out = table_of((Table)t);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
#else
static CUresult export_table(const void**, const CUuuid*) {
  return CUDA_ERROR_INVALID_VALUE;
}
#endif

}  // namespace busbar::client

using namespace busbar::client;

API CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  if (!table || !id) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  if (!std::memcmp(id, kNvmlBridgeId, 16)) {
    *table = nvml_bridge();
    return CUDA_SUCCESS;
  }
  return export_table(table, id);
}
