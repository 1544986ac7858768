// libFuzzer target: messages between the processes of a node.
//
// The first byte of the input chooses the decoder, the second one the number of descriptors that go
// with the first message.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "control/messages.h"
#include "fuzz/connection.h"
#include "launcher/ledgers.h"
#include "launcher/pidfd.h"
#include "softgpu/jit/messages.h"
#include "spawner/requests.h"
#include "transport/clock.h"

using namespace busbar;

namespace {
enum Decoder : uint8_t { kControlMessages, kSpawnRequest, kLedgerRequests, kCompilerReply, kCount };
constexpr uint32_t kRoomBytes = 128;  // less than some inputs have
constexpr int kDeadlineMs = 1000;
constexpr uint64_t kLimits[] = {1 << 20, 1000};

// Returns a connection on which these bytes arrive, and nothing after them.
int sent(int type, const uint8_t* p, size_t n, size_t descriptors) {
  fuzz::Connection c = fuzz::connect(type);
  fuzz::send_with(c.there, p, n, descriptors);
  shutdown(c.there, SHUT_WR);  // descriptors on their way keep it open
  close(c.there);
  return c.here;
}

void read_control_messages(const uint8_t* p, size_t n, size_t descriptors) {
  int fd = sent(SOCK_STREAM, p, n, descriptors);
  uint8_t body[kRoomBytes];
  control::Header h;
  int attached = -1;
  while (control::receive_message(fd, h, body, sizeof body, &attached,
                                  transport::now_ms() + kDeadlineMs)) {
    if (h.body_bytes > sizeof body) abort();
    if (attached >= 0) close(attached);
    attached = -1;
  }
  close(fd);
}

void read_spawn_request(const uint8_t* p, size_t n, size_t descriptors) {
  int fd = sent(SOCK_SEQPACKET, p, n, descriptors);
  spawner::Request request;
  bool valid = spawner::receive_request(fd, request);
  if (valid != (n == sizeof request.fields && descriptors <= (size_t)spawner::kMaxDescriptors))
    abort();
  for (int a : request.attached)
    if (a >= 0) close(a);
  close(fd);
}

// The requests of one session. The sum of its charges never exceeds the limit.
void apply_ledger_requests(const uint8_t* p, size_t n) {
  static const std::string folder = [] {
    static char name[] = "/tmp/busbar-fuzz-XXXXXX";
    return std::string(mkdtemp(name));
  }();
  static const int pidfd = launcher::open_pidfd(getpid());
  static auto& ledgers = *new launcher::Ledgers(folder);
  const launcher::Account account{"ledger", {1}};
  if (!ledgers.set_limits(account.allocation, kLimits, 2)) abort();
  ledgers.add(account, 1, 1, pidfd);
  control::LedgerRequest request;
  control::LedgerAnswer answer;
  for (; n >= sizeof request; p += sizeof request, n -= sizeof request) {
    std::memcpy(&request, p, sizeof request);
    bool answered = ledgers.apply(account, request, answer) && answer.sequence;
    if (answered && answer.sequence != request.sequence) abort();
    auto charged = ledgers.charged_by(account);
    for (uint32_t i = 0; i < charged.size(); ++i)
      if (charged[i] > (i < std::size(kLimits) ? kLimits[i] : 0)) abort();
  }
  ledgers.remove(account);
}

void read_compiler_reply(const std::string& bytes) {
  softgpu::jit::ModuleDescription module;
  softgpu::jit::Compiled compiled;
  softgpu::jit::decode(bytes, module);
  softgpu::jit::decode(bytes, compiled);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n < 2) return 0;
  size_t descriptors = data[1] % (fuzz::kMaxDescriptors + 1);
  const uint8_t* p = data + 2;
  n -= 2;
  int before = fuzz::lowest_descriptor();
  switch (data[0] % kCount) {
    case kControlMessages: read_control_messages(p, n, descriptors); break;
    case kSpawnRequest: read_spawn_request(p, n, descriptors); break;
    case kLedgerRequests: apply_ledger_requests(p, n); return 0;  // its files stay open
    default: read_compiler_reply({(const char*)p, n});
  }
  if (fuzz::lowest_descriptor() != before) abort();  // a descriptor has leaked
  return 0;
}
