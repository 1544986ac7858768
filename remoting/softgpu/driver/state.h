// The objects behind the handles of the software driver. Handles are pointers that a registry
// knows.
#pragma once
#include <cuda.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "softgpu/device/arena.h"
#include "softgpu/device/engine.h"
#include "softgpu/device/grid.h"
#include "softgpu/jit/compiler.h"

namespace softgpu {

struct Context;
struct Capture;
struct GraphNode;
struct NodeParams;

struct StreamState {
  Context* context = nullptr;
  bool blocking = true, legacy = false, closing = false;
  int priority = 0;
  uint64_t enqueued = 0, completed = 0;  // guarded by Context::mutex
  struct Gate {
    std::shared_ptr<StreamState> stream;
    uint64_t position;
  };
  struct Operation {
    std::function<CUresult()> run;
    std::vector<Gate> gates;
  };
  std::deque<Operation> queue;
  bool has_thread = false;
  std::shared_ptr<Capture> capture;  // calls become nodes of its graph
  std::vector<GraphNode*> tail;      // what the next captured call depends on
};
using StreamRef = std::shared_ptr<StreamState>;

struct EventState {
  Context* context = nullptr;
  bool timed = true, recorded = false;
  StreamRef stream;
  uint64_t position = 0;
  std::shared_ptr<Capture> capture;  // recorded on a stream that was being captured
  std::vector<GraphNode*> tail;
  std::shared_ptr<uint64_t> nanoseconds;  // written when the record is reached
};

struct Allocation {
  enum Kind { device, host, registered, mapped, reserved } kind = device;
  uint64_t base = 0, bytes = 0, charged = 0;
  Context* context = nullptr;
  unsigned flags = 0;
  int ordinal = 0;
  uint64_t id = 0;
};

struct Physical {
  int fd = -1;
  uint64_t bytes = 0;
  int ordinal = 0, references = 1;  // the handle and each mapping
  bool imported = false;            // another process is charged for it
};

struct ModuleState;

struct KernelState {
  ModuleState* module = nullptr;
  jit::KernelDescription description;
  std::mutex mutex;
  std::unique_ptr<CompiledKernel> compiled;
  int dynamic_shared_limit = 48 << 10;
};

struct GlobalState {
  uint64_t address = 0, bytes = 0;
};

struct ModuleState {
  int ordinal = 0, max_registers = 255;
  std::string ptx;
  std::map<std::string, std::unique_ptr<KernelState>> kernels;
  std::vector<KernelState*> order;
  std::map<std::string, GlobalState> globals;
  uint64_t memory = 0, memory_bytes = 0;
};

struct DeviceState {
  int ordinal = 0;
  Engine* engine = nullptr;
  std::unique_ptr<GridRunner> runner;
  Context* primary = nullptr;
  int primary_references = 0;
  unsigned primary_flags = 0;
};

struct Context {
  DeviceState* device = nullptr;
  unsigned flags = 0;
  uint64_t id = 0;
  bool primary = false, destroyed = false;
  std::atomic<int> attached{1};  // by cuCtxCreate and cuCtxAttach
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<StreamRef> streams;             // the legacy stream first
  std::atomic<CUresult> error{CUDA_SUCCESS};  // sticky
  std::map<std::thread::id, StreamRef> per_thread;
  size_t limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};
};

// Everything, made by cuInit and never destroyed: programs call the driver while their statics die.
struct Driver {
  std::mutex mutex;
  DeviceConfig config;
  std::vector<std::unique_ptr<DeviceState>> devices;
  jit::Compiler compiler;
  std::set<const void*> handles;               // live objects of every kind but memory
  std::map<uint64_t, Allocation> allocations;  // by base
  std::map<uint64_t, Physical*> mappings;      // VMM: by mapped address
  std::map<uint64_t, uint64_t> mapping_bytes;
  uint64_t next_id = 1;
  int pid = 0;
};

Driver* driver();                        // null before cuInit, or in a forked child
std::vector<Context*>& context_stack();  // of the calling thread
Context* current();                      // or null
CUresult current_context(Context*& c);   // not initialised, no context, sticky error
DeviceState* device_at(int ordinal);

bool known(const void* handle);
void remember(const void* handle);
bool forget(const void* handle);                      // false: it was not known
const Allocation* find_allocation(uint64_t address);  // call with Driver::mutex held

// Streams. Handles 0, 1 and 2 are the legacy stream, the legacy stream and the calling thread's
// own.
CUresult stream_for(CUstream handle, Context* c, StreamRef& out);
// On a stream that is being captured the call becomes a node, made from `params`, and 0 is
// returned.
uint64_t enqueue(const StreamRef& s, std::function<CUresult()> run,
                 std::vector<StreamState::Gate> gates = {}, const NodeParams* params = nullptr);
CUresult wait_for(const StreamRef& s, uint64_t position);
CUresult wait_for_context(Context* c);

inline uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}
CUresult seen_by_host(CUresult r, CUdeviceptr p);  // of the forms without a stream: host memory
                                                   // holds what they wrote when they return
bool registered_memory(uint64_t address,
                       uint32_t bytes);  // host memory that was registered: kernels may touch it
void forget_pool_memory(uint64_t base,
                        uint64_t bytes);  // an allocation that may have come from a pool is freed
void forget_ipc(uint64_t base);           // an allocation that may have been shared is freed
CUresult allocate_memory(Context* c, size_t bytes, CUdeviceptr* out);
bool valid_device_range(uint64_t address, size_t bytes);
CUresult release_memory(uint64_t base);  // an Allocation of kind device or host
CUresult compile_kernel(KernelState* k, std::string* log);
CUresult load_module(const void* image, int ordinal, ModuleState*& out, std::string* log);
void unload_module(ModuleState* m);
std::string ptx_of_image(const void* image, bool& is_binary);
KernelState* kernel_of(CUfunction f);

extern thread_local int t_per_thread_default;

}  // namespace softgpu

#define API extern "C" __attribute__((visibility("default")))
