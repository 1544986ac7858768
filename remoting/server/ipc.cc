// Memory and events of one session in another session of the same allocation, as descriptors, which
// the session servers pass through offered connections. The driver exports that of memory. Each
// session that maps memory is charged, because it exists until the last one unmaps it.
#include "server/ipc.h"

#include <openssl/rand.h>
#include <unistd.h>

#include <cstring>

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

// Requests the descriptor from the session server that owns the object; -1 if it refuses.
int request_descriptor(Session& s, const wire::IpcToken& token) {
  std::string path =
      s.socket_folder + "/" + control::hex(token.session, 8) + control::kOffersSocket;
  int fd = control::offer_to(path.c_str(), kReplyMs), received = -1;
  if (fd < 0) return -1;
  int64_t deadline_ms = transport::now_ms() + kReplyMs;
  control::Header h;
  bool ok =
      control::send_message(fd, control::Kind::share, &token, sizeof token, -1, deadline_ms) &&
      control::receive_message(fd, h, nullptr, 0, &received, deadline_ms) &&
      h.kind == (uint32_t)control::Kind::ok;
  close(fd);
  if (!ok && received >= 0) {
    close(received);
    received = -1;
  }
  return received;
}

int export_memory(Session& s, const wire::IpcToken& token, const IpcSecret& secret) {
  std::lock_guard lock(s.shared_mutex);
  auto it = s.shared.find(secret);
  int fd = -1;
  if (it == s.shared.end() || it->second.bytes != token.bytes ||
      s.cu.cuMemExportToShareableHandle(&fd, it->second.handle,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
    return -1;
  return fd;
}
}  // namespace

// address inside a lease -> token
void handlers::ipc_export(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), address = in.get<uint64_t>();
  auto it = s.leases.upper_bound(address);
  if (!in.ok() || it == s.leases.begin()) return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  --it;
  if (it->second.outside_arena || address - it->first >= it->second.bytes)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  if (!s.cu.cuMemExportToShareableHandle) return s.reply(reply, CUDA_ERROR_NOT_SUPPORTED);
  wire::IpcToken t{};
  std::memcpy(t.magic, wire::kIpcMagic, sizeof t.magic);
  std::memcpy(t.session, s.id.data(), sizeof t.session);
  t.lease = it->first;
  t.bytes = it->second.bytes;
  t.offset = address - it->first;
  IpcSecret secret;
  std::lock_guard lock(s.shared_mutex);
  for (auto& [secret_of, lease] : s.shared)
    if (lease.handle == it->second.handle) {
      std::memcpy(t.secret, secret_of.data(), sizeof t.secret);
      return s.reply(reply, CUDA_SUCCESS, std::string((const char*)&t, sizeof t));
    }
  if (s.shared.size() >= kMaxShared || RAND_bytes(secret.data(), (int)secret.size()) != 1)
    return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  s.shared[secret] = {it->second.handle, it->second.bytes};
  std::memcpy(t.secret, secret.data(), sizeof t.secret);
  s.reply(reply, CUDA_SUCCESS, std::string((const char*)&t, sizeof t));
}

int export_shared(Session& s, const wire::IpcToken& token, pid_t requester) {
  IpcSecret secret;
  std::memcpy(secret.data(), token.secret, secret.size());
  // A requester outside of this PID namespace has no pid here. It reached the socket through the
  // folder of the allocation.
  if (requester != 0 && !s.account.has_session(requester)) return -1;
  bool event = !std::memcmp(token.magic, wire::kIpcEventMagic, sizeof token.magic);
  return event ? s.shared_events.descriptor_of(secret) : export_memory(s, token, secret);
}

// token, device, address of a reserved range of the same size
void handlers::ipc_open(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>();
  auto t = in.get<wire::IpcToken>();
  uint64_t device = in.get<uint64_t>(), at = in.get<uint64_t>();
  if (!in.ok() || device >= s.devices.size() ||
      std::memcmp(t.magic, wire::kIpcMagic, sizeof t.magic) || !s.cu.cuMemImportFromShareableHandle)
    return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  auto range = s.reserved.find(at);
  if (range == s.reserved.end() || range->second != t.bytes || s.mapped.count(at))
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  MemoryCharge charge(s.account, s.devices[device].partition, t.bytes);
  if (!charge.granted()) return s.reply(reply, CUDA_ERROR_OUT_OF_MEMORY);
  int fd = request_descriptor(s, t);
  if (fd < 0) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  CUmemGenericAllocationHandle h = 0;
  CUresult r = s.cu.cuMemImportFromShareableHandle(&h, (void*)(intptr_t)fd,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(fd);
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {s.devices[device].device}},
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (!r) r = s.cu.cuMemMap(at, t.bytes, 0, h, 0);
  if (!r && (r = s.cu.cuMemSetAccess(at, t.bytes, &access, 1))) s.cu.cuMemUnmap(at, t.bytes);
  if (h) s.cu.cuMemRelease(h);  // the mapping keeps it
  if (!r) s.mapped[at] = {t.bytes, 0, std::move(charge), {}};
  s.reply(reply, r);
}

// address, bytes
void handlers::ipc_close(Session& s, wire::Decoder in) {
  uint64_t reply = in.get<uint64_t>(), at = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  auto it = s.mapped.find(at);
  if (!in.ok() || it == s.mapped.end() || it->second.handle || it->second.bytes != bytes)
    return s.reply(reply, CUDA_ERROR_INVALID_VALUE);
  s.cu.cuCtxSynchronize();
  CUresult r = s.cu.cuMemUnmap(at, bytes);
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
  int fd = request_descriptor(s, t);
  if (fd < 0) return s.reply(reply, CUDA_ERROR_INVALID_HANDLE);
  auto event = SharedEvent::open(s.cu, fd);
  if (!event) return s.reply(reply, CUDA_ERROR_MAP_FAILED);
  s.reply(reply,
          s.shared_events.keep(id, std::move(event)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace busbar::server
