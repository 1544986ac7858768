// The state of one session: the objects of this node's driver behind the ids of the client.
//
// Thread safety: for the executor thread, except
//   any thread       link, bulk, pinned, account, functions, objects, graph_buffers, credit(),
//   reply() with a mutex     modules (modules_mutex), graph_functions (its own), shared
//   (shared_mutex)
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/account.h"
#include "server/bulk_transfers.h"
#include "server/context.h"
#include "server/context_limits.h"
#include "server/descriptor_values.h"
#include "server/device.h"
#include "server/driver.h"
#include "server/event.h"
#include "server/function_table.h"
#include "server/graph_buffers.h"
#include "server/graph_events.h"
#include "server/graph_functions.h"
#include "server/handle_map.h"
#include "server/link.h"
#include "server/loaded_module.h"
#include "server/memory.h"
#include "server/module_unloads.h"
#include "server/pinned_pool.h"
#include "server/shared_events.h"
#include "server/stream.h"
#include "server/turns.h"
#include "wire/objects.h"

namespace busbar::server {

class KernelOutput;

struct Session {
  Session(Driver& driver, Link& l, PinnedPool& pool, BulkTransfers& transfers,
          Account& account_with_launcher, std::vector<DeviceState> d, std::string images)
      : cu(driver),
        link(l),
        pinned(pool),
        bulk(transfers),
        account(account_with_launcher),
        devices(std::move(d)),
        graph_buffers(driver),
        image_folder(std::move(images)) {}

  Driver& cu;
  Link& link;
  PinnedPool& pinned;
  BulkTransfers& bulk;
  KernelOutput* output = nullptr;  // null in tests
  Turns* turns = nullptr;          // null in tests: no turns are needed
  Account& account;

  // Objects by the client's id.
  std::vector<DeviceState> devices;
  HandleMap<ContextState> contexts;
  HandleMap<StreamState> streams;
  std::unordered_map<uint32_t, EventState> events;
  SharedEvents shared_events;  // see there
  std::mutex modules_mutex;
  std::unordered_map<uint32_t, ModuleRef> modules;
  std::set<uint32_t> unloading;  // modules whose unload was received before their load has ended
  ModuleUnloads unloads;
  FunctionTable functions;

  // Objects by the driver's value.
  Objects<Charge> objects;
  GraphBuffers graph_buffers;
  GraphFunctions graph_functions;
  GraphEvents graph_events;

  // Device memory.
  std::atomic<uint32_t> charged_contexts{0};    // a bit for each device; thread `memory` sets them
  ContextLimits limits{cu, account};            // thread `code`
  std::map<uint64_t, MemoryLease> leases;       // by address
  std::map<uint64_t, uint64_t> reserved;        // address ranges of the program: bytes
  bool has_registered_chunks = false;           // register_chunks() was called
  bool has_client_addresses = false;            // reserve_client_addresses() was successful
  std::map<uint64_t, Mapping> mapped;           // mappings of the program, by address
  std::map<uint64_t, PhysicalMemory> physical;  // by the client's handle
  std::mutex shared_mutex;
  // Leases behind each other that other sessions may open, by the secret of their token.
  std::map<std::array<uint8_t, 16>, std::vector<SharedLease>> shared;

  std::array<uint8_t, 16> id{};
  std::string socket_folder;  // holds the control sockets of all sessions
  std::string image_folder;   // module images of this tenant; empty: no cache
  CUcontext current = nullptr;
  uint32_t active_captures = 0;
  // Submitted work may wait for a later record: for the end of a graph's host function, or for a
  // value that a stream writes.
  std::atomic<bool> work_waits{false};
  uint64_t launches = 0;
  std::atomic<uint64_t> posted_bytes{0};       // of records that wait for helper threads
  std::atomic<bool> all_paused{false};         // the client pauses; fewer posted bytes may end that
  std::atomic<uint64_t> credit_total{0};       // bulk bytes consumed since the start
  std::atomic<bool> sizes_changed{false};      // the client may know other sizes of its partitions
  std::atomic<bool> exceeds_partition{false};  // a partition has shrunk below what is charged
  std::atomic<bool> memory_wanted{false};      // the client is to return unused leases

  // Lookups by the client's id; null when there is none.
  StreamState* stream(uint32_t stream_id) { return streams.find(stream_id); }
  ContextState* context(uint32_t context_id) { return contexts.find(context_id); }
  ModuleRef module(uint32_t module_id);
  CUfunction function_handle(uint32_t function_id) const { return functions.get(function_id); }
  CUcontext context_handle(uint32_t context_id);
  // The partition of the device of this thread's context, which new arrays and modules use.
  uint32_t current_partition() const;
  // Charges this session's context on a device, once. Thread `memory`. False: no memory is free.
  bool charge_context(uint32_t device);
  bool has_charged_context(uint32_t device) const { return charged_contexts >> device & 1; }
  CUdevice device_handle(uint32_t index) const;  // -1 when there is none
  // Of the streams of a device; null without turns.
  TurnGate* gate_of(uint32_t device) {
    return turns ? turns->gate(devices[device].partition) : nullptr;
  }
  CUevent event_handle(uint32_t event_id);  // creates an event that was never recorded
  bool too_many_modules();

  // Makes a context current on this thread. An unknown id changes nothing.
  void use_context(uint32_t context_id);

  // True if the handles inside a structure are the client's own, and its enumerations have values.
  template <typename T>
  bool accepts(const T& d) const {
    return has_values(d);
  }
  bool accepts(const CUDA_RESOURCE_DESC& d) const;

  void reply(uint64_t reply_id, uint32_t status, const std::string& body = {});
  void credit(uint64_t bytes);  // permits the client to send as many more bulk bytes
};

}  // namespace busbar::server
