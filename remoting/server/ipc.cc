// Memory of one session in another session of the same allocation. The driver exports it as a
// descriptor, which the session servers pass through offered connections. Each session that maps
// it is charged, because the memory exists until the last one unmaps it.
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

// Requests the descriptor from the session server that owns the memory; -1 if it refuses.
int request_memory(Session& s, const wire::IpcToken& token) {
  std::string path =
      s.socket_folder + "/" + control::hex(token.session, 8) + control::kOffersSocket;
  int fd = control::offer_to(path.c_str(), kReplyMs), memory = -1;
  if (fd < 0) return -1;
  int64_t deadline_ms = transport::now_ms() + kReplyMs;
  control::Header h;
  bool ok =
      control::send_message(fd, control::Kind::share, &token, sizeof token, -1, deadline_ms) &&
      control::receive_message(fd, h, nullptr, 0, &memory, deadline_ms) &&
      h.kind == (uint32_t)control::Kind::ok;
  close(fd);
  if (!ok && memory >= 0) {
    close(memory);
    memory = -1;
  }
  return memory;
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
  std::array<uint8_t, 16> secret;
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

int export_shared_memory(Session& s, const wire::IpcToken& token, pid_t requester) {
  std::array<uint8_t, 16> secret;
  std::memcpy(secret.data(), token.secret, secret.size());
  std::lock_guard lock(s.shared_mutex);
  auto it = s.shared.find(secret);
  int fd = -1;
  // A requester outside of this PID namespace has no pid here. It reached the socket through the
  // folder of the allocation.
  bool is_sibling = requester == 0 || s.account.has_session(requester);
  if (it == s.shared.end() || it->second.bytes != token.bytes || !is_sibling ||
      s.cu.cuMemExportToShareableHandle(&fd, it->second.handle,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
    return -1;
  return fd;
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
  int fd = request_memory(s, t);
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
  if (!r) s.mapped[at] = {t.bytes, 0, std::move(charge)};
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

}  // namespace busbar::server
