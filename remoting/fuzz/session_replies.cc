// libFuzzer target: replies of hostile session servers to the start message of the launcher.
//
// The first byte of the input is the number of descriptors; kGone: the session server has ended.
#include <cstddef>

#include "fuzz/connection.h"
#include "launcher/session_start.h"
#include "transport/clock.h"

using namespace busbar;
using namespace busbar::launcher;

namespace {
constexpr int64_t kDeadlineMs = 1000;
constexpr uint8_t kGone = 255;

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
  if (n < 1) return 0;
  int before = fuzz::lowest_descriptor();
  read_start_reply(data + 1, n - 1, data[0]);
  if (fuzz::lowest_descriptor() != before) abort();
  return 0;
}
