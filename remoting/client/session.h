// The process's session: the devices of all its nodes, contexts, and every object a handle can name.
#pragma once
#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "client/address_map.h"
#include "client/handles.h"
#include "client/heap.h"
#include "client/link.h"

namespace busbar::client {

struct Context;

struct Device {
  Link* link = nullptr;
  uint32_t remote = 0;                       // its number on the node
  int ordinal = 0;
  uint32_t pci_domain = 0;                   // one per node, so that devices of different nodes never look like neighbours
  char name[256] = {};
  CUuuid uuid{};
  uint64_t memory_bytes = 0;                 // of the partition
  std::vector<int> attributes;
  std::vector<bool> known;
  std::mutex mutex;                          // guards the primary context
  Context* primary = nullptr;
  int primary_references = 0;
  unsigned primary_flags = 0;
  std::unique_ptr<Heap> heap;                // null: the node chooses addresses
};

struct Stream {
  Context* context = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  Progress progress;
  std::atomic<int> host_functions{0};        // submitted and not yet done: later copies must not read ahead
  void* handle = nullptr;
};

struct Context {
  Device* device = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  bool primary = false;
  std::atomic<bool> destroyed{false};
  Stream legacy;
  std::mutex mutex;                          // guards streams
  std::vector<Stream*> streams;              // created ones, the legacy stream not among them
  std::atomic<int> non_blocking_streams{0};
  void* handle = nullptr;
};

struct Event {
  Context* context = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  std::mutex mutex;
  Stream* stream = nullptr;                  // of the newest record
  uint64_t position = 0;
  void* handle = nullptr;
};

struct Parameter { uint32_t offset, bytes; };
struct Module;

struct Function {
  Module* module = nullptr;
  uint32_t id = 0;
  std::string name;
  int attributes[16] = {};
  uint32_t attribute_status[16] = {};
  std::vector<Parameter> layout;
  uint32_t parameter_bytes = 0;
  void* handle = nullptr;
};

struct Module {
  Context* context = nullptr;
  uint32_t id = 0;
  std::mutex mutex;
  std::vector<std::pair<std::string, Function*>> functions;
  void* handle = nullptr;
};

struct Kernel;
struct Library {
  std::string image;
  std::mutex mutex;
  std::vector<std::pair<Context*, Module*>> modules;        // loaded in these contexts
  std::vector<std::pair<std::string, Kernel*>> kernels;
  void* handle = nullptr;
};
struct Kernel { Library* library = nullptr; std::string name; void* handle = nullptr; };

struct LinkJob { std::vector<std::pair<int, std::string>> inputs; std::string image, log; char* log_buffer = nullptr; size_t log_room = 0; };

struct Session {
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::unique_ptr<Device>> devices;
  int driver_version = 0;
  bool software = false;
  AddressMap addresses;
  std::atomic<uint32_t> next_number{wire::kFirstStream};    // contexts, streams, events, modules
  std::atomic<uint32_t> next_function{1};
  Handles<Context, HandleKind::context> contexts;
  Handles<Stream, HandleKind::stream> streams;
  Handles<Event, HandleKind::event> events;
  Handles<Module, HandleKind::module> modules;
  Handles<Function, HandleKind::function> functions;
  Handles<Library, HandleKind::library> libraries;
  Handles<Kernel, HandleKind::kernel> kernels;
  Handles<LinkJob, HandleKind::link> link_jobs;
};

// Null before cuInit, after exit began, and in a forked child. Never destroyed.
Session* session();
CUresult open_session();                      // cuInit: blocking, once

// context.cc
std::vector<Context*>& context_stack();
Context* current_context();
CUresult require_context(Context*& c);        // not initialised, none, destroyed, or the link's sticky error
CUresult make_context(Device* d, unsigned flags, bool primary, Context*& out);
CUresult synchronize(Context* c);

// stream.cc
Stream* stream_of(CUstream handle, Context* c);     // null: an invalid handle
void submitted(Stream* s, uint64_t position);       // `last` moves forward
CUresult wait_for(Stream* s, uint64_t position);    // asks for a completion mark and waits
void start_host_functions(Link* link);

// module.cc
Function* function_of(CUfunction handle, CUresult& error);   // a CUfunction or a CUkernel
CUresult load_module(Context* c, const void* image, std::string* log, Module*& out);
CUresult get_function(Module* m, const char* name, Function*& out);

// images.cc: the bytes that the node needs of what a program hands over; empty when it is no image.
std::string image_bytes(const void* image, int major, int minor);

extern thread_local int t_per_thread_default;

}  // namespace busbar::client

#define API extern "C" __attribute__((visibility("default")))
