// The state of one session: what the client's numbers mean on this node's driver.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "server/driver.h"
#include "server/function_table.h"
#include "server/graph_memory.h"
#include "server/ledger.h"
#include "server/link.h"
#include "server/numbered.h"
#include "server/staging.h"
#include "wire/decode.h"
#include "wire/objects.h"

namespace busbar::server {

// What an object took of a partition.
struct Charge {
  uint64_t bytes = 0;
  uint32_t partition = 0;
};

struct PartitionGrant {
  std::array<uint8_t, 16> uuid{};
  uint64_t memory_bytes = 0;
  uint32_t compute_percent = 0;
};

struct DeviceState {
  CUdevice device = 0;
  uint32_t partition = 0;
  std::vector<std::pair<uint64_t, uint64_t>> arenas;  // reserved: address, bytes
};

struct ContextState {
  CUcontext handle = nullptr;
  uint32_t device = 0;
  std::vector<CUevent> idle_events;  // untimed, for completion marks
};

struct StreamState {
  CUstream handle = nullptr;
  uint32_t id = 0, context = 0;
  bool blocking = true, legacy = false;
  uint64_t last = 0, marked = 0;          // positions: of the newest work, of the newest mark
  bool capturing = false;                 // its calls become nodes; nothing of ours may go on it
  CUresult capture_error = CUDA_SUCCESS;  // the first error meanwhile
};

// One version of a program's event. A parked wait keeps the version it was bound to at decode.
struct RealEvent {
  Driver* cu = nullptr;
  CUevent handle = nullptr;
  ~RealEvent() {
    if (handle) cu->cuEventDestroy(handle);
  }
};

struct EventState {
  uint32_t context = 0, flags = 0;
  std::shared_ptr<RealEvent> current;
  uint32_t stream = 0;    // where it was last recorded
  uint64_t ticket = 0;    // its place in that stream's software queue, 0 if it was not parked
  bool in_graph = false;  // a node names it: there is one version from now on
};

// Whoever uses a module holds it: the helper may be reading one that the program unloads.
struct LoadedModule {
  LoadedModule(Driver& driver, CUmodule m) : cu(driver), handle(m) {}
  LoadedModule(const LoadedModule&) = delete;
  ~LoadedModule() { cu.cuModuleUnload(handle); }
  Driver& cu;
  const CUmodule handle;
};
using ModuleRef = std::shared_ptr<LoadedModule>;

struct Lease {
  uint64_t bytes = 0;
  uint32_t device = 0;
  CUmemGenericAllocationHandle handle = 0;
  bool plain = false;
};

// Graphs that wait for a function of the program.
struct Session;

// What the driver hands to the callback of a graph. Lives as long as the session: a graph may be
// launched at any time.
struct ProgramFunction {
  Session* session;
  uint64_t id;
  std::set<uint32_t>
      outputs;  // buffers that are filled when it runs; guarded by GraphFunctions::mutex
};

struct GraphFunctions {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t next_round = 1;
  std::set<uint64_t> waiting;
  std::unordered_map<const void*, std::shared_ptr<ProgramFunction>>
      known;  // by the data that the driver hands to our callback
};

struct Session {
  Session(Driver& driver, Link& l, Staging& st, Ledger& led, std::vector<DeviceState> d,
          std::string images)
      : cu(driver),
        link(l),
        staging(st),
        ledger(led),
        devices(std::move(d)),
        graph_memory(driver),
        image_folder(std::move(images)) {}
  Driver& cu;
  Link& link;
  Staging& staging;
  class Output* output = nullptr;  // null in tests
  Ledger& ledger;
  std::vector<DeviceState> devices;
  Numbered<ContextState> contexts;
  Numbered<StreamState> streams;
  std::unordered_map<uint32_t, EventState> events;
  std::mutex modules_mutex;  // the helper loads while the executor unloads
  std::unordered_map<uint32_t, ModuleRef> modules;
  FunctionTable functions;  // by the client's number
  Objects<Charge> objects;
  GraphMemory graph_memory;
  GraphFunctions graph_functions;
  std::map<uint64_t, Lease> leases;  // by address
  std::map<uint64_t, uint64_t> reserved,
      mapped;  // the program's own: address to bytes, address to handle
  struct Physical {
    uint64_t bytes;
    uint32_t partition, mappings;
    bool released;
  };
  std::map<uint64_t, Physical> physical;  // by handle
  std::mutex shared_mutex;                // the control thread answers other sessions
  std::map<std::array<uint8_t, 16>, CUmemGenericAllocationHandle>
      shared;  // by the secret of its token
  std::array<uint8_t, 16> id{};
  std::string socket_folder;  // where the control sockets of all sessions lie
  std::string image_folder;   // of this tenant; empty: no cache
  CUcontext current = nullptr;
  uint64_t launches = 0;
  std::atomic<uint64_t> credit_total{0};  // bulk bytes consumed since the start

  ModuleRef module(uint32_t id) {
    std::lock_guard lock(modules_mutex);
    auto it = modules.find(id);
    return it == modules.end() ? nullptr : it->second;
  }
  bool too_many_modules() {
    std::lock_guard lock(modules_mutex);
    return modules.size() >= wire::kMaxObjects;
  }
  CUfunction function_named(uint32_t id) const { return functions.get(id); }
  CUcontext context_named(uint32_t id) {
    auto* c = context(id);
    return c ? c->handle : nullptr;
  }
  CUdevice device_named(uint32_t id) const { return id < devices.size() ? devices[id].device : -1; }
  CUevent event_named(uint32_t id);  // made when it was never recorded
  // Whether the handles inside of a structure are the client's own.
  template <typename T>
  bool accepts(const T&) const {
    return true;
  }
  bool accepts(const CUDA_RESOURCE_DESC& d) const;
  bool accepts(const CUDA_MEMCPY3D& c, bool from_host, bool to_host) const;
  bool stage_copy(CUDA_MEMCPY3D& c, bool in, uint32_t staging);
  static void host_side(CUDA_MEMCPY3D& c, bool in,
                        void* p);  // packed rows at p in the place of the program's memory
  StreamState* stream(uint32_t id) { return streams.find(id); }
  ContextState* context(uint32_t id) { return contexts.find(id); }
  void reply(uint64_t id, uint32_t status, const std::string& body = {});
  void credit(uint64_t bytes);  // tells the client that it may send so much more
};

struct GeneratedCall {
  uint16_t opcode;
  const char* name;
  bool replies, slow;  // slow: on the helper thread
  CUresult (*run)(Session&, wire::Decoder&, CUstream, std::string&);
};

// One decoded record. `payload` lives as long as the call.
struct Record {
  wire::RecordHeader head;
  const uint8_t* payload = nullptr;
  uint64_t position = 0;
  std::shared_ptr<RealEvent> event;  // bound at decode
  wire::Decoder decoder() const { return {payload, head.bytes - sizeof head}; }
};

// memory.cc and module.cc: calls that answer. Run on the helper thread, or inline where they cannot
// block.
std::string describe_devices(Driver& cu, Ledger& ledger, std::vector<DeviceState>& devices,
                             std::vector<uint64_t> offered);
void lease_memory(Session& s, wire::Decoder in);
void return_memory(Session& s, wire::Decoder in);
void allocate(Session& s, wire::Decoder in);
void release(Session& s, wire::Decoder in);
void memory_info(Session& s, wire::Decoder in);
void unload_module(Session& s, wire::Decoder in);
void load_module(Session& s, wire::Decoder in);
void get_function(Session& s, wire::Decoder in);
void get_global(Session& s, wire::Decoder in);
void link_images(Session& s, wire::Decoder in);
void list_functions(Session& s, wire::Decoder in);
void active_clusters(Session& s, wire::Decoder in);
void cluster_size(Session& s, wire::Decoder in);

// virtual_memory.cc
void reserve_addresses(Session& s, wire::Decoder in);
void free_addresses(Session& s, wire::Decoder in);
void create_memory(Session& s, wire::Decoder in);
void release_memory(Session& s, wire::Decoder in);
void map_memory(Session& s, wire::Decoder in);
void unmap_memory(Session& s, wire::Decoder in);
void set_access(Session& s, wire::Decoder in);

void nvml_sample(Session& s, wire::Decoder in);   // nvml.cc
void flush_output(Session& s, wire::Decoder in);  // output.cc: the context must be current
// ipc.cc
void ipc_export(Session& s, wire::Decoder in);
void ipc_open(Session& s, wire::Decoder in);
void ipc_close(Session& s, wire::Decoder in);
int shared_memory_of(Session& s, const wire::IpcToken& token,
                     pid_t asker);  // a descriptor for another session of the allocation, or -1
void tensor_map(Session& s, wire::Decoder in);  // tensor_map.cc
void validity(Session& s, wire::Decoder in);    // validity.cc

// array.cc
void create_array(Session& s, wire::Decoder in);
void destroy_array(Session& s, wire::Decoder in);

// graph.cc and graph_nodes.cc
void instantiate(Session& s, wire::Decoder in);
void kernel_node(Session& s, wire::Decoder in);
void copy_node(Session& s, wire::Decoder in);
void host_node(Session& s, wire::Decoder in);
void kernel_node_params(Session& s, wire::Decoder in);
void copy_node_params(Session& s, wire::Decoder in);
void host_node_params(Session& s, wire::Decoder in);
void words_node(Session& s, wire::Decoder in);
void words_node_params(Session& s, wire::Decoder in);
void conditional_node(Session& s, wire::Decoder in);
void node_event(Session& s, wire::Decoder in);
void stage_now(Session& s, wire::Decoder in);
void graph_function_done(Session& s, wire::Decoder in);
CUhostFn graph_callback();  // calls the program's function and waits for it
void* graph_callback_data(Session& s, uint64_t id);

template <typename T>
void append(std::string& out, T v) {
  out.append((const char*)&v, sizeof v);
}

}  // namespace busbar::server
