// The process's session: the devices of all its nodes, contexts, and every object a handle can
// name.
#pragma once
#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "client/address_map.h"
#include "client/handles.h"
#include "client/heap.h"
#include "client/link.h"
#include "wire/jit_option.h"
#include "wire/objects.h"

namespace busbar::client {

struct Capture;
struct Context;

// Which node knows an object of the driver's, and in which context it was made; no link: nothing
// does.
struct Home {
  Link* link = nullptr;
  Context* context = nullptr;
};

struct Device {
  Link* link = nullptr;
  uint32_t remote = 0;  // its number on the node
  int ordinal = 0;
  uint32_t pci_domain =
      0;  // one per node, so that devices of different nodes never look like neighbours
  char name[256] = {};
  CUuuid uuid{};
  uint64_t memory_bytes = 0;  // of the partition
  std::vector<int> attributes;
  std::vector<bool> known;
  std::mutex mutex;  // guards the primary context
  Context* primary = nullptr;
  int primary_references = 0;
  unsigned primary_flags = 0;
  std::unique_ptr<Heap> heap;  // null: the node chooses addresses
};

struct Stream : std::enable_shared_from_this<Stream> {
  Context* context = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  Progress progress;
  std::atomic<int> host_functions{
      0};  // submitted and not yet done: later copies must not read ahead
  std::atomic<bool> capturing{false};
  std::shared_ptr<Capture> capture;                        // guarded by the captures' mutex
  std::map<CUstreamAttrID, CUstreamAttrValue> attributes;  // guarded by the context's mutex
  void* handle = nullptr;
  ~Stream();
};
using StreamRef = std::shared_ptr<Stream>;  // events, host functions and waits keep a stream that
                                            // the program destroyed
StreamRef kept(Stream* s);

struct Context {
  Device* device = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  uint64_t life = 0;  // how often it was made
  bool primary = false;
  std::atomic<bool> destroyed{false};
  Stream legacy;
  std::mutex mutex;                // guards streams
  std::vector<StreamRef> streams;  // created ones, the legacy stream not among them
  std::atomic<int> attached{1};    // by cuCtxCreate and cuCtxAttach
  std::atomic<int> non_blocking_streams{0};
  std::atomic<int> capturing_streams{0};  // blocking ones: the legacy stream is out of bounds
  void* handle = nullptr;
};

struct Event {
  Context* context = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  std::mutex mutex;
  StreamRef stream;  // of the newest record
  uint64_t position = 0;
  bool by_graph = false;  // a node of one records it: it may be done before the launch is
  std::shared_ptr<Capture>
      capture;  // it was last recorded in this one; guarded by the captures' mutex
  void* handle = nullptr;
};

struct Parameter {
  uint32_t offset, bytes;
};
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
  uint64_t context_life = 0;  // a context that was ended and lives again has other modules
  uint32_t id = 0;
  std::mutex mutex;
  std::vector<std::pair<std::string, Function*>> functions;
  bool of_library = false;        // goes with it
  std::vector<uint64_t> globals;  // addresses that the program asked for
  void* handle = nullptr;
};

struct Kernel;
struct Library {
  std::string image;
  std::vector<wire::JitOption> options;
  std::mutex mutex;
  struct Loaded {
    Context* context;
    uint64_t life;
    Module* module;
  };
  std::vector<Loaded> modules;  // one a context; a context that was ended took its module with it
  std::vector<std::pair<std::string, Kernel*>> kernels;
  void* handle = nullptr;
};
struct Kernel {
  Library* library = nullptr;
  std::string name;
  void* handle = nullptr;
};

struct LinkJob {
  std::vector<wire::JitOption> options;
  std::vector<std::pair<int, std::string>> inputs;
  std::string image, log;
  char* log_buffer = nullptr;
  size_t log_room = 0;
};

// Functions by the number that the node knows them by.
class FunctionNumbers {
 public:
  void add(uint32_t id, Function* f) {
    std::lock_guard lock(mutex_);
    functions_[id] = f;
  }
  void remove(uint32_t id) {
    std::lock_guard lock(mutex_);
    functions_.erase(id);
  }
  Function* get(uint32_t id) {
    std::lock_guard lock(mutex_);
    auto it = functions_.find(id);
    return it == functions_.end() ? nullptr : it->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint32_t, Function*> functions_;
};

struct Session {
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::unique_ptr<Device>> devices;
  int driver_version = 0;
  bool software = false;
  std::atomic<bool> prints{false};  // a module was loaded whose kernels may print
  AddressMap addresses;
  Objects<Home> objects;
  std::atomic<uint32_t> next_number{wire::kFirstStream};  // contexts, streams, events, modules
  std::atomic<uint32_t> next_function{1}, next_staging{1};
  Handles<Context, HandleKind::context> contexts;
  Handles<Stream, HandleKind::stream> streams;
  Handles<Event, HandleKind::event> events;
  Handles<Module, HandleKind::module> modules;
  Handles<Function, HandleKind::function> functions;
  FunctionNumbers function_numbers;
  Handles<Library, HandleKind::library> libraries;
  Handles<Kernel, HandleKind::kernel> kernels;
  Handles<LinkJob, HandleKind::link> link_jobs;
};

// Null before cuInit, after exit began, and in a forked child. Never destroyed.
Session* session();
Home home_of(ObjectKind kind, uint64_t value);
CUresult open_session();  // cuInit: blocking, once

// context.cc
std::vector<Context*>& context_stack();
Context* current_context();
CUresult require_context(
    Context*& c);  // not initialised, none, destroyed, or the link's sticky error
CUresult make_context(Device* d, unsigned flags, Context*& out);
CUresult synchronize(Context* c);
CUresult take_output(Context* c);  // context.cc
Context* primary_context(
    Device* d);  // its handle is the same for the whole session; call with the device's lock
void destroy_context_storage(CUcontext c);  // runtime_tables.cc: what libraries kept for it

// stream.cc
Stream* stream_of(CUstream handle, Context* c);   // null: an invalid handle
void submitted(Stream* s, uint64_t position);     // `last` moves forward
CUresult wait_for(Stream* s, uint64_t position);  // asks for a completion mark and waits
void start_host_functions(Link* link);

// module.cc
Function* function_of(CUfunction handle, CUresult& error);  // a CUfunction or a CUkernel
using JitOptions = std::vector<wire::JitOption>;
JitOptions jit_options(
    unsigned n, const CUjit_option* options,
    void** values);  // those that change the code: the limit of registers and the like
CUresult load_module(Context* c, const void* image, const JitOptions& options, std::string* log,
                     Module*& out);
CUresult get_function(Module* m, const char* name, Function*& out);
CUresult module_of(Library* l, Context* c, Module*& out);  // loads it there when it is not
CUresult function_names(Module* m, std::vector<std::string>& names);
void unload_module(Module* m);
std::vector<Module*> modules_of(Context* c);
void note_module(Module* m);
void write_log(unsigned n, const CUjit_option* options, void** values,
               const std::string& log);  // into the program's error log buffer

// images.cc: the bytes that the node needs of what a program hands over; empty when it is no image.
std::string image_bytes(const void* image, int major, int minor);
bool read_file(const char* path,
               std::string& out);  // files are the program's, so they are read here

extern thread_local int t_per_thread_default;

}  // namespace busbar::client

#define API extern "C" __attribute__((visibility("default")))
