// The session of the process: its links, devices and all objects that a handle can name.
//
// Thread safety: all members of Session may be used from any thread once it is published. The
// vectors are constant from then on, except `devices`, which cuInit fills; the registries have
// locks of their own.
#pragma once
#include <cuda.h>

#include <atomic>
#include <memory>
#include <vector>

#include "client/address_map.h"
#include "client/device.h"
#include "client/function.h"
#include "client/handles.h"
#include "client/link.h"
#include "wire/objects.h"

namespace busbar::client {

struct Context;
struct Event;
struct Kernel;
struct Library;
struct LinkJob;
struct Module;
struct Stream;

// The link and context in which a driver object was created. A null link: the object is unknown.
struct ObjectHome {
  Link* link = nullptr;
  Context* context = nullptr;
};

struct Session {
  AddressMap addresses;
  std::vector<std::unique_ptr<Link>> links;          // one for each node
  std::vector<std::unique_ptr<Device>> all_devices;  // of the allocation, which NVML shows
  std::vector<Device*> devices;                      // those that CUDA shows, by ordinal
  bool has_chosen_devices = false;                   // cuInit has filled `devices`
  int driver_version = 0;                            // the lowest of all nodes
  std::atomic<bool> prints{false};  // a loaded module contains kernels that may print
  Objects<ObjectHome> objects;
  std::atomic<uint32_t> next_id{wire::kFirstStream};  // of contexts, streams, events and modules
  std::atomic<uint32_t> next_function{1}, next_staging{1};
  Handles<Context, HandleKind::context> contexts;
  Handles<Stream, HandleKind::stream> streams;
  Handles<Event, HandleKind::event> events;
  Handles<Module, HandleKind::module> modules;
  Handles<Function, HandleKind::function> functions;
  FunctionsById functions_by_id;
  Handles<Library, HandleKind::library> libraries;
  Handles<Kernel, HandleKind::kernel> kernels;
  Handles<LinkJob, HandleKind::link> link_jobs;
};

// Return whether CUDA calls have a session: not before cuInit, after exit has begun, or in a forked
// child. The others fail; a call in progress continues when another thread begins to exit.
bool has_session();
// Return whether NVML has a session, which may open before cuInit and anew in a forked child.
bool has_open_session();
// Return the newest session, in a forked child first that of its parent; null before one has
// opened. It is never freed.
Session* session();

// Makes `s` the session of the process, for NVML only.
void publish_session(Session* s);
// Gives the session to CUDA calls, unless it has ended.
void admit_cuda_calls();
// Ends the session of the process and returns it, or null if there is none.
Session* end_session();

// Return the device of an ordinal, or null when there is no session or no such device.
Device* find_device(int ordinal);

ObjectHome home_of(ObjectKind kind, uint64_t value);

}  // namespace busbar::client
