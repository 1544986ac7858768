#include "launcher/violations.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

namespace busbar::launcher {

namespace {
struct SystemCall {
  int number;
  const char* name;
};
constexpr SystemCall kSystemCalls[] = {
#include "system_calls.inc"
};

std::string name_of(int number) {
  auto* call = std::find_if(std::begin(kSystemCalls), std::end(kSystemCalls),
                            [&](auto& c) { return c.number == number; });
  return call == std::end(kSystemCalls) ? "number " + std::to_string(number) : call->name;
}
}  // namespace

std::string take_violation(int listener) {
  pollfd p{listener, POLLIN, 0};
  if (listener < 0 || poll(&p, 1, 0) <= 0 || !(p.revents & POLLIN)) return "";
  // A newer kernel may write more than this structure has.
  std::vector<char> room(std::max<size_t>(sizeof(seccomp_notif), 4096));
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, room.data())) return "";
  seccomp_notif report;
  std::memcpy(&report, room.data(), sizeof report);
  return name_of(report.data.nr);
}

}  // namespace busbar::launcher
