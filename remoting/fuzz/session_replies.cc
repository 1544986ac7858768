// libFuzzer target: replies of hostile session servers to the launcher.
//
// The first byte of the input chooses the reply: to status requests of two sessions, or to a start
// message. The second one is the number of bytes that arrive first, or of descriptors; kGone: the
// session server has ended.
#include <poll.h>

#include <cstddef>
#include <vector>

#include "fuzz/connection.h"
#include "launcher/session_start.h"
#include "launcher/status_reply.h"
#include "transport/clock.h"

using namespace busbar;
using namespace busbar::launcher;

namespace {
constexpr int64_t kDeadlineMs = 1000;
constexpr uint8_t kGone = 255;
constexpr size_t kReplyBytes = sizeof(control::Header) + sizeof(control::SessionStatus);

bool is_valid_status(const uint8_t* p, size_t n) {
  control::Header h;
  if (n < kReplyBytes) return false;
  std::memcpy(&h, p, sizeof h);
  return h.kind == (uint32_t)control::Kind::ok && h.body_bytes == sizeof(control::SessionStatus);
}

// Both sessions send the same reply: one in two parts, the other at once.
void read_status_replies(const uint8_t* p, size_t n, size_t first) {
  first = std::min(first, n);
  fuzz::Connection c[2] = {fuzz::connect(), fuzz::connect()};
  std::vector<pollfd> entries = {{c[0].here, POLLIN, 0}, {c[1].here, POLLIN, 0}};
  std::vector<StatusReply> replies(2);
  size_t done = 0;
  auto arrive = [&](size_t session, size_t begin, size_t bytes) {
    fuzz::send_with(c[session].there, p + begin, bytes, 0);
    if (poll(entries.data(), entries.size(), 0) > 0) done += read_replies(entries, replies);
  };
  entries[0].revents = POLLIN;  // by mistake
  done += read_replies(entries, replies);
  arrive(0, 0, first);
  arrive(1, 0, n);
  arrive(0, first, n - first);
  for (auto& connection : c) close(connection.there);
  while (done < 2 && poll(entries.data(), entries.size(), 0) > 0)
    done += read_replies(entries, replies);
  if (done != 2) abort();  // both connections have ended
  for (auto& reply : replies)
    if (reply.valid() != is_valid_status(p, n) ||
        (reply.valid() &&
         std::memcmp(&reply.status(), p + sizeof(control::Header), sizeof reply.status())))
      abort();
}

// The launcher sends the description on, so its length must be one that the reply has.
void read_start_reply(const uint8_t* p, size_t n, uint8_t how) {
  size_t descriptors = how % (fuzz::kMaxDescriptors + 1);
  static auto& start = *new control::SessionStart{};
  fuzz::Connection c = fuzz::connect();
  int violations = -1;
  fuzz::send_with(c.there, p, n, descriptors);
  shutdown(c.there, how == kGone ? SHUT_RDWR : SHUT_WR);
  int rendezvous = descriptors & 1 ? c.there : -1;
  auto ready = start_session(c.here, start, {c.there, c.there, c.there, rendezvous}, violations,
                             transport::now_ms() + kDeadlineMs);
  if (ready && ready->bytes > sizeof ready->description) abort();
  if (ready &&
      n < sizeof(control::Header) + offsetof(control::SessionReady, description) + ready->bytes)
    abort();
  if (violations >= 0) close(violations);
  close(c.here);
  close(c.there);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n < 2) return 0;
  int before = fuzz::lowest_descriptor();
  if (data[0] & 1)
    read_start_reply(data + 2, n - 2, data[1]);
  else
    read_status_replies(data + 2, n - 2, data[1]);
  if (fuzz::lowest_descriptor() != before) abort();
  return 0;
}
