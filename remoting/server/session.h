// The state of one session: what the client's numbers mean on this node's driver.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "server/driver.h"
#include "server/ledger.h"
#include "server/link.h"
#include "server/staging.h"
#include "wire/decode.h"

namespace busbar::server {

struct PartitionGrant {
  std::array<uint8_t, 16> uuid{};
  uint64_t memory_bytes = 0;
  uint32_t compute_percent = 0;
};

struct DeviceState {
  CUdevice device = 0;
  uint32_t partition = 0;
  std::vector<std::pair<uint64_t, uint64_t>> arenas;       // reserved: address, bytes
};

struct ContextState {
  CUcontext handle = nullptr;
  uint32_t device = 0;
  std::vector<CUevent> idle_events;                         // untimed, for completion marks
};

struct StreamState {
  CUstream handle = nullptr;
  uint32_t id = 0, context = 0;
  bool blocking = true, legacy = false;
  uint64_t last = 0, marked = 0;                            // positions: of the newest work, of the newest mark
};

// One version of a program's event. A parked wait keeps the version it was bound to at decode.
struct RealEvent {
  Driver* cu = nullptr;
  CUevent handle = nullptr;
  ~RealEvent() { if (handle) cu->cuEventDestroy(handle); }
};

struct EventState {
  uint32_t context = 0, flags = 0;
  std::shared_ptr<RealEvent> current;
  uint32_t stream = 0;                                      // where it was last recorded
  uint64_t ticket = 0;                                      // its place in that stream's software queue, 0 if it was not parked
};

struct Lease { uint64_t bytes = 0; uint32_t device = 0; CUmemGenericAllocationHandle handle = 0; bool plain = false; };

struct Session {
  Driver& cu;
  Link& link;
  Staging& staging;
  Ledger& ledger;
  std::vector<DeviceState> devices;
  std::unordered_map<uint32_t, ContextState> contexts;
  std::unordered_map<uint32_t, StreamState> streams;
  std::unordered_map<uint32_t, EventState> events;
  std::unordered_map<uint32_t, CUmodule> modules;
  std::vector<CUfunction> functions;                        // by the client's number
  std::map<uint64_t, Lease> leases;                         // by address
  std::string image_folder;                                 // of this tenant; empty: no cache
  CUcontext current = nullptr;
  uint64_t launches = 0;
  std::atomic<uint64_t> credit_total{0};                    // bulk bytes consumed since the start

  CUfunction function(uint32_t id) const { return id < functions.size() ? functions[id] : nullptr; }
  StreamState* stream(uint32_t id) { auto it = streams.find(id); return it == streams.end() ? nullptr : &it->second; }
  ContextState* context(uint32_t id) { auto it = contexts.find(id); return it == contexts.end() ? nullptr : &it->second; }
  void reply(uint64_t id, uint32_t status, const std::string& body = {});
  void credit(uint64_t bytes);                              // tells the client that it may send so much more
};

struct GeneratedCall {
  uint16_t opcode;
  const char* name;
  bool replies;
  CUresult (*run)(Session&, wire::Decoder&, CUstream, std::string&);
};

// One decoded record. `payload` lives as long as the call.
struct Record {
  wire::RecordHeader head;
  const uint8_t* payload = nullptr;
  uint64_t position = 0;
  std::shared_ptr<RealEvent> event;                         // bound at decode
  wire::Decoder decoder() const { return {payload, head.bytes - sizeof head}; }
};

// memory.cc and module.cc: calls that answer. Run on the helper thread, or inline where they cannot block.
void describe(Session& s, wire::Decoder in);
void reserve_arena(Session& s, wire::Decoder in);
void lease_memory(Session& s, wire::Decoder in);
void return_memory(Session& s, wire::Decoder in);
void allocate(Session& s, wire::Decoder in);
void release(Session& s, wire::Decoder in);
void memory_info(Session& s, wire::Decoder in);
void load_module(Session& s, wire::Decoder in);
void get_function(Session& s, wire::Decoder in);
void get_global(Session& s, wire::Decoder in);
void link_images(Session& s, wire::Decoder in);

}  // namespace busbar::server
