// cuInit: opens the links, learns the devices in one answer each, agrees on arenas.
#include "client/session.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client/no_sigpipe.h"
#include "client/ticket_file.h"

namespace busbar::client {

thread_local int t_per_thread_default = 0;

namespace {
constexpr uint64_t kFirstSlot = 0x210000000000ull;  // 33 TiB

std::atomic<Session*> g_session{nullptr};
std::atomic<bool> g_ended{false};
std::mutex g_opening;

void after_fork_in_child() {
  if (g_session.exchange(nullptr)) g_ended = true;
}  // the parent's sockets are not ours: no word, no destructor

void at_exit() {
  Session* s = g_session.exchange(nullptr);
  g_ended = true;
  if (s)
    for (auto& l : s->links) l->goodbye();
}

// Addresses that nothing of this process uses, kept free until the node has chosen among them.
std::vector<uint64_t> free_addresses() {
  const char* off = std::getenv("BUSBAR_ARENA");
  std::vector<uint64_t> free;
#ifdef BUSBAR_SMALL_WINDOW  // ThreadSanitizer's memory lies there
  return free;
#endif
  if (off && !std::strcmp(off, "0")) return free;
  for (uint32_t slot = 0; slot < wire::kArenaSlots; ++slot) {
    uint64_t at = kFirstSlot + slot * wire::kArenaSlotBytes;
    void* p = mmap((void*)at, wire::kArenaSlotBytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED) continue;
    if ((uint64_t)p == at)
      free.push_back(at);
    else
      munmap(p, wire::kArenaSlotBytes);
  }
  return free;
}

void give_up(const std::vector<uint64_t>& addresses) {
  for (uint64_t at : addresses) munmap((void*)at, wire::kArenaSlotBytes);
}

std::unique_ptr<Heap> make_heap(Device* d, uint64_t at, uint64_t bytes) {
  auto lease = [d](uint64_t where, uint64_t n) {
    uint64_t reply = d->link->next_id();
    wire::Encoder<> r(wire::Op::lease_memory, d->primary ? d->primary->id : 0);
    r.put(reply).put(d->remote).put<uint32_t>(0).put(where).put(n);
    return (CUresult)d->link->ask(reply, r.finish(), r.size()).status;
  };
  auto give_back = [d](uint64_t where, uint64_t n) {
    wire::Encoder<> r(wire::Op::return_memory, d->primary ? d->primary->id : 0);
    r.put(where).put(n);
    d->link->submit(r.finish(), r.size());
  };
  return std::make_unique<Heap>(at, bytes, lease, give_back);
}

// One device of the node's answer. Its arena leaves the list of free addresses.
std::unique_ptr<Device> read_device(wire::Decoder& d, Link* link, uint32_t number, uint32_t domain,
                                    std::vector<uint64_t>& free) {
  auto dev = std::make_unique<Device>();
  dev->link = link;
  dev->remote = number;
  dev->pci_domain = domain;
  if (const uint8_t* name = d.raw(sizeof dev->name))
    std::memcpy(dev->name, name, sizeof dev->name - 1);
  if (const uint8_t* uuid = d.raw(16)) std::memcpy(&dev->uuid, uuid, 16);
  dev->memory_bytes = d.get<uint64_t>();
  uint64_t arena = d.get<uint64_t>(), bytes = d.get<uint64_t>();
  for (int k = 0; k < wire::kDeviceAttributes; ++k) {
    dev->attributes.push_back(d.get<int32_t>());
    dev->known.push_back(d.get<uint8_t>() != 0);
  }
  dev->attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] = (int)domain;
  auto slot = std::find(free.begin(), free.end(), arena);
  if (slot == free.end() || bytes > wire::kArenaSlotBytes)
    return dev;  // without one the node chooses addresses
  free.erase(slot);
  if (bytes < wire::kArenaSlotBytes) munmap((void*)(arena + bytes), wire::kArenaSlotBytes - bytes);
  dev->heap = make_heap(dev.get(), arena, bytes);
  return dev;
}

CUresult read_devices(Session* s, Link* link, uint32_t domain, const std::string& description,
                      std::vector<uint64_t> free) {
  wire::Decoder d(description.data(), description.size());
  int version = (int)d.get<uint32_t>();
  d.get<uint32_t>();  // a software GPU or a real one
  uint32_t count = d.get<uint32_t>();
  if (count > wire::kMaxDevices) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  if (!s->driver_version || version < s->driver_version) s->driver_version = version;
  for (uint32_t i = 0; i < count; ++i) s->devices.push_back(read_device(d, link, i, domain, free));
  give_up(free);
  return d.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

bool matches_uuid(const CUuuid& uuid,
                  const std::string& wanted) {  // "GPU-" and any unambiguous beginning
  char text[64];
  auto* b = (const unsigned char*)uuid.bytes;
  std::snprintf(text, sizeof text,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15]);
  return wanted.size() >= 5 && !std::string(text).compare(0, wanted.size(), wanted);
}

// CUDA_VISIBLE_DEVICES, as the driver reads it: the list ends at the first entry that names no
// device.
void apply_visible_devices(Session* s) {
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list) {
    std::vector<std::unique_ptr<Device>> chosen;
    std::string text = list;
    for (size_t at = 0; at <= text.size() && !text.empty();) {
      size_t comma = std::min(text.find(',', at), text.size());
      std::string word = text.substr(at, comma - at);
      at = comma + 1;
      char* end = nullptr;
      long index = std::strtol(word.c_str(), &end, 10);
      bool number = end != word.c_str() && *end == 0;
      auto it = std::find_if(s->devices.begin(), s->devices.end(), [&](auto& d) {
        return d && (number ? &d - s->devices.data() == index : matches_uuid(d->uuid, word));
      });
      if (it == s->devices.end()) break;
      chosen.push_back(std::move(*it));
    }
    s->devices = std::move(chosen);
  }
  for (size_t i = 0; i < s->devices.size(); ++i) s->devices[i]->ordinal = (int)i;
}
}  // namespace

Session* session() {
  return g_session.load(std::memory_order_acquire);
}
Home home_of(ObjectKind kind, uint64_t value) {
  auto known = session()->objects.find(kind, value);
  return known ? known->note : Home{};
}

CUresult open_session() {
  std::lock_guard lock(g_opening);
  if (session()) return CUDA_SUCCESS;
  if (g_ended) return CUDA_ERROR_NOT_INITIALIZED;
  NoSigpipe quiet;
  TicketFile file;
  std::string error;
  if (!read_ticket_file(file, error)) {
    std::fprintf(stderr, "busbar: %s\n", error.c_str());
    return CUDA_ERROR_NO_DEVICE;
  }
  auto* s = new Session;
  for (auto& node : file.nodes) {
    auto link = std::make_unique<Link>();
    std::string why, description;
    std::vector<uint64_t> free = free_addresses();
    start_host_functions(link.get());
    if (!link->open(node, file.ca_pem, file.private_key, free, description, why)) {
      give_up(free);
      std::fprintf(stderr, "busbar: node %s: %s\n", node.node_id.c_str(), why.c_str());
      return CUDA_ERROR_NO_DEVICE;
    }
    CUresult r = read_devices(s, link.get(), (uint32_t)s->links.size(), description, free);
    s->links.push_back(std::move(link));
    if (r) return r;
  }
  apply_visible_devices(s);
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    std::atexit(at_exit);
  });
  g_session.store(s, std::memory_order_release);
  return CUDA_SUCCESS;
}

}  // namespace busbar::client
