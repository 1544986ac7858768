// Memory and events of one session in another session of the same allocation, as descriptors, which
// the session servers pass through offered connections. The driver exports that of memory. Each
// session that maps memory is charged, because it exists until the last one unmaps it.
#include "server/ipc.h"

#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "checked_size.h"
#include "control/hex.h"
#include "control/messages.h"
#include "control/offers.h"
#include "server/handlers.h"
#include "server/reply.h"
#include "server/session.h"
#include "transport/clock.h"

namespace busbar::server {

namespace {
constexpr uint32_t kMaxShared = 4096;
constexpr int kReplyMs = 5000;

// Requests the descriptor from the session server that owns the object; -1 if it refuses. `bytes`
// is the size of memory.
int request_descriptor(Session& s, const wire::IpcToken& token, uint64_t& bytes) {
  std::string path =
      s.socket_folder + "/" + control::hex(token.session, 8) + control::kOffersSocket;
  int fd = control::offer_to(path.c_str(), kReplyMs), received = -1;
  if (fd < 0) return -1;
  int64_t deadline_ms = transport::now_ms() + kReplyMs;
  control::Header h;
  bool ok =
      control::send_message(fd, control::Kind::share, &token, sizeof token, -1, deadline_ms) &&
      control::receive_message(fd, h, &bytes, sizeof bytes, &received, deadline_ms) &&
      h.kind == (uint32_t)control::Kind::ok;
  close(fd);
  if (!ok && received >= 0) {
    close(received);
    received = -1;
  }
  return received;
}

uint64_t bytes_of(const std::vector<SharedLease>& leases) {
  CheckedSize all(0);
  for (auto& lease : leases) all = all + lease.bytes;
  return all.value();
}

// Exports the lease at token.offset.
int export_memory(Session& s, const wire::IpcToken& token, const IpcSecret& secret,
                  uint64_t& bytes) {
  std::lock_guard lock(s.shared_mutex);
  auto it = s.shared.find(secret);
  if (it == s.shared.end() || bytes_of(it->second) != token.bytes) return -1;
  uint64_t at = 0;
  auto lease = std::ranges::find_if(it->second, [&](auto& each) {
    bool found = at == token.offset;
    at += each.bytes;  // NOLINT(custom-unchecked-sum): the sum of all is token.bytes
    return found;
  });
  int fd = -1;
  if (lease == it->second.end() ||
      s.cu.cuMemExportToShareableHandle(&fd, lease->handle,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
    return -1;
  bytes = lease->bytes;
  return fd;
}

// Returns the leases that an allocation lies in, and the address of the first one. Empty: a part of
// it lies in none.
std::vector<SharedLease> leases_of(const Session& s, uint64_t address, uint64_t bytes,
                                   uint64_t& first) {
  std::vector<SharedLease> found;
  CheckedSize end = CheckedSize(address) + bytes;
  auto it = s.leases.upper_bound(address);
  if (!bytes || !end.valid() || it == s.leases.begin()) return {};
  first = (--it)->first;
  uint32_t device = it->second.device;
  uint64_t next = first;
  for (; next < end.value(); ++it) {
    if (it == s.leases.end() || it->first != next || it->second.outside_arena ||
        it->second.device != device)
      return {};
    found.push_back({it->second.handle, it->second.bytes});
    next += it->second.bytes;  // NOLINT(custom-unchecked-sum): leases lie inside the arena
  }
  return found;
}

CUresult map_part(Session& s, int fd, uint64_t at, uint64_t bytes) {
  CUmemGenericAllocationHandle h = 0;
  CUresult r = s.cu.cuMemImportFromShareableHandle(&h, (void*)(intptr_t)fd,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (!r) r = s.cu.cuMemMap(at, bytes, 0, h, 0);
  if (h) s.cu.cuMemRelease(h);  // the mapping keeps it
  return r;
}

// Maps the leases of a token one after the other. `parts` has the sizes of those that are mapped.
CUresult map_parts(Session& s, const wire::IpcToken& token, uint64_t at,
                   std::vector<uint64_t>& parts) {
  wire::IpcToken part = token;
  for (part.offset = 0; part.offset < token.bytes;) {
    uint64_t bytes = 0, left = token.bytes - part.offset;
    int fd = request_descriptor(s, part, bytes);
    if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
    bool fits = bytes && bytes % wire::kGranularity == 0 && bytes <= left;
    CUresult r = fits ? map_part(s, fd, (CheckedSize(at) + part.offset).value(), bytes)
                      : CUDA_ERROR_INVALID_HANDLE;
    close(fd);
    if (r) return r;
    parts.push_back(bytes);
    part.offset += bytes;  // NOLINT(custom-unchecked-sum): at most token.bytes
  }
  return CUDA_SUCCESS;
}

// Each mapping is removed by itself. Stops at an error.
CUresult unmap_parts(Session& s, uint64_t at, const std::vector<uint64_t>& parts) {
  for (uint64_t bytes : parts) {
    if (CUresult r = s.cu.cuMemUnmap(at, bytes)) return r;
    at += bytes;  // NOLINT(custom-unchecked-sum): parts of one mapped range
  }
  return CUDA_SUCCESS;
}
}  // namespace

// address and bytes of an allocation -> token of its leases
void handlers::ipc_export(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), address = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  wire::IpcToken t{};
  auto leases = leases_of(s, address, bytes, t.lease);
  if (!in.ok() || leases.empty()) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (!s.cu.cuMemExportToShareableHandle) return s.reply(reply, CUDA_ERROR_NOT_SUPPORTED);
  std::memcpy(t.magic, wire::kIpcMagic, sizeof t.magic);
  std::memcpy(t.session, s.id.data(), sizeof t.session);
  t.bytes = bytes_of(leases);
  t.offset = address - t.lease;
  IpcSecret secret;
  std::lock_guard lock(s.shared_mutex);
  for (auto& [secret_of, shared] : s.shared)
    if (shared == leases) {
      std::memcpy(t.secret, secret_of.data(), sizeof t.secret);
      return s.reply(reply, CUDA_SUCCESS, std::string((const char*)&t, sizeof t));
    }
  if (s.shared.size() >= kMaxShared || RAND_bytes(secret.data(), (int)secret.size()) != 1)
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  s.shared[secret] = std::move(leases);
  std::memcpy(t.secret, secret.data(), sizeof t.secret);
  s.reply(reply, CUDA_SUCCESS, std::string((const char*)&t, sizeof t));
}

int export_shared(Session& s, const wire::IpcToken& token, pid_t requester, uint64_t& bytes) {
  IpcSecret secret;
  std::memcpy(secret.data(), token.secret, secret.size());
  // A requester outside of this PID namespace has no pid here. It reached the socket through the
  // folder of the allocation.
  if (requester != 0 && !s.account.has_session(requester)) return -1;
  bool event = !std::memcmp(token.magic, wire::kIpcEventMagic, sizeof token.magic);
  return event ? s.shared_events.descriptor_of(secret) : export_memory(s, token, secret, bytes);
}

// token, device, 1: ask other sessions for unused memory, address of a reserved range of the same
// size
void handlers::ipc_open(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto t = in.get<wire::IpcToken>();
  uint32_t device = in.get<uint32_t>();
  bool asks = in.get<uint32_t>() != 0;
  uint64_t at = in.get<uint64_t>();
  if (!in.ok() || device >= s.devices.size() ||
      std::memcmp(t.magic, wire::kIpcMagic, sizeof t.magic) || !s.cu.cuMemImportFromShareableHandle)
    return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  auto range = s.reserved.find(at);
  if (range == s.reserved.end() || range->second != t.bytes || s.mapped.count(at))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  MemoryCharge charge(s.account, s.devices[device].partition, t.bytes, asks);
  if (!charge.granted()) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  std::vector<uint64_t> parts;
  CUresult r = map_parts(s, t, at, parts);
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {s.devices[device].device}},
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (!r) r = s.cu.cuMemSetAccess(at, t.bytes, &access, 1);
  if (r)
    unmap_parts(s, at, parts);
  else
    s.mapped[at] = {t.bytes, 0, std::move(charge), {}, std::move(parts)};
  s.reply(reply, r);
}

// address, bytes
void handlers::ipc_close(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  auto it = s.mapped.find(at);
  if (!in.ok() || it == s.mapped.end() || it->second.handle || it->second.bytes != bytes)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  s.cu.cuCtxSynchronize();
  CUresult r = unmap_parts(s, at, it->second.parts);
  if (!r) s.mapped.erase(it);
  s.reply(reply, r);
}

// event. The client creates the event afterwards.
void handlers::ipc_create_event(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t id = in.get<uint32_t>();
  auto event = in.ok() ? SharedEvent::create(s.cu) : nullptr;
  bool kept = event && s.shared_events.keep(id, std::move(event));
  s.reply(reply, kept ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

// event -> token
void handlers::ipc_export_event(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto it = s.events.find(in.get<uint32_t>());
  if (!in.ok() || it == s.events.end()) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  IpcSecret secret;
  if (!it->second.shared || !s.shared_events.offer(it->second.shared, secret))
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  wire::IpcToken t{};
  std::memcpy(t.magic, wire::kIpcEventMagic, sizeof t.magic);
  std::memcpy(t.session, s.id.data(), sizeof t.session);
  std::memcpy(t.secret, secret.data(), sizeof t.secret);
  s.reply(reply, CUDA_SUCCESS, std::string((const char*)&t, sizeof t));
}

// event, token. The client creates the event afterwards.
void handlers::ipc_open_event(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  uint32_t id = in.get<uint32_t>();
  auto t = in.get<wire::IpcToken>();
  if (!in.ok() || std::memcmp(t.magic, wire::kIpcEventMagic, sizeof t.magic))
    return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  uint64_t no_bytes = 0;
  int fd = request_descriptor(s, t, no_bytes);
  if (fd < 0) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  auto event = SharedEvent::open(s.cu, fd);
  if (!event) return s.reply(reply, CUDA_ERROR_MAP_FAILED);
  s.reply(reply,
          s.shared_events.keep(id, std::move(event)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace busbar::server
