#include "client/open_session.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "client/arena_addresses.h"
#include "client/device_description.h"
#include "client/host_function.h"
#include "client/session.h"
#include "client/sigpipe_guard.h"
#include "mutex.h"

namespace busbar::client {

namespace {
std::atomic<bool> g_exiting{false};
std::atomic<bool> g_parent_used_cuda{false};  // this process was forked from one that called cuInit
Mutex g_opening;

void release_session(Session* s) {
  for (auto& l : s->links) l->release_after_fork();
  for (auto& d : s->all_devices) release_arena(*d);
}

// The session belongs to the parent, and the child opens one of its own. Objects of CUDA have no
// counterpart in that one, so after a parent that used CUDA it is for NVML only, and what the
// objects refer to stays, without its connections.
void after_fork_in_child() RELEASE(g_opening) {
  g_opening.unlock();
  bool used_cuda = has_session();
  Session* s = end_session();
  if (used_cuda) g_parent_used_cuda = true;
  if (!s) return;
  for (auto& l : s->links) l->close_after_fork();
  if (!used_cuda) release_session(s);
}

// Registered when the library is loaded: before those of NVML, whose lock is taken before
// g_opening. A fork waits for a session that another thread opens, so that no child has half of it.
[[maybe_unused]] const int g_fork_handlers =
    pthread_atfork([]() ACQUIRE(g_opening) { g_opening.lock(); },
                   []() RELEASE(g_opening) { g_opening.unlock(); }, after_fork_in_child);

void at_exit() {
  Session* s = end_session();
  g_exiting = true;
  if (s)
    for (auto& l : s->links) l->close();
}

// The heaps of a node, with the number of ranges that the program has freed until now.
std::vector<std::pair<Heap*, uint64_t>> freed_until_now(const Link* link) {
  std::vector<std::pair<Heap*, uint64_t>> freed;
  if (!has_open_session()) return freed;
  for (auto& d : session()->all_devices)
    if (d->link == link && d->heap) freed.emplace_back(d->heap.get(), d->heap->freed());
  return freed;
}

// Another session needs memory, or a partition has shrunk. What work may still use of what the
// program has freed before is returned when that work ends: for a program, memory that was freed is
// free. The program may have made it available to itself by then. Meanwhile its unused leases are
// kept, as ever.
void return_unused_leases(Link* link, const std::function<bool()>& wait) {
  auto freed = freed_until_now(link);
  size_t pending = SIZE_MAX;
  do {
    link->poll_frames();  // completions may free memory
    size_t before = std::exchange(pending, 0);
    for (auto& [heap, count] : freed) pending += heap->pending(count);
    if (pending < before)
      for (auto& [heap, count] : freed) heap->return_unused();
  } while (pending && wait());
}

CUresult open_node(Session* s, const NodeTicket& node, const TicketFile& file) {
  auto link = std::make_unique<Link>(s->addresses);
  std::string error, description;
  std::vector<uint64_t> free_addresses = reserve_arena_addresses();
  start_host_functions(link.get());
  link->return_memory = [l = link.get()](const std::function<bool()>& wait) {
    return_unused_leases(l, wait);
  };
  if (!link->open(node, file.private_key, free_addresses, description, error)) {
    release_arena_addresses(free_addresses);
    std::fprintf(stderr, "busbar: node %s: %s\n", node.node_name.c_str(), error.c_str());
    return CUDA_ERROR_NO_DEVICE;
  }
  CUresult r = read_devices(s, link.get(), (uint32_t)s->links.size(), description, free_addresses);
  s->links.push_back(std::move(link));
  return r;
}

CUresult open_once() REQUIRES(g_opening) {
  if (has_open_session()) return CUDA_SUCCESS;
  if (g_exiting) return CUDA_ERROR_NOT_INITIALIZED;
  SigpipeGuard no_sigpipe;
  TicketFile file;
  std::string error;
  if (!read_ticket_file(file, error)) {
    std::fprintf(stderr, "busbar: %s\n", error.c_str());
    return CUDA_ERROR_NO_DEVICE;
  }
  auto* s = new Session;
  for (auto& node : file.nodes)
    if (CUresult r = open_node(s, node, file)) return r;
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(at_exit); });
  publish_session(s);
  return CUDA_SUCCESS;
}
}  // namespace

CUresult open_session() {
  MutexLock lock(g_opening);
  return open_once();
}

CUresult initialize_cuda() {
  MutexLock lock(g_opening);
  if (has_session()) return CUDA_SUCCESS;
  if (g_parent_used_cuda) return CUDA_ERROR_NOT_INITIALIZED;
  if (CUresult r = open_once()) return r;
  Session* s = session();
  if (!s->has_chosen_devices) apply_visible_devices(s);
  s->has_chosen_devices = true;
  if (s->devices.empty()) return CUDA_ERROR_NO_DEVICE;
  admit_cuda_calls();
  return CUDA_SUCCESS;
}

}  // namespace busbar::client
