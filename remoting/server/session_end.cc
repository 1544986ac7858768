#include "server/session_end.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "control/log.h"
#include "control/messages.h"

namespace busbar::server {

using control::SessionEnd;

namespace {
constexpr int kFarewellMs = 500;  // for the client to take the reason of the end
constexpr int kLeaveMs = 5000;    // for the executor to take what the client has sent

// Returns the first end. The client closes its connection when it is notified of the end, and
// another thread sees that as a second end.
const Ending& first_of(const Ending& ending) {
  static const Ending first = ending;
  return first;
}
}  // namespace

void end_process(const Ending& ending) {
  const Ending& first = first_of(ending);
  control::log_line("session server", "ended", "pid " + std::to_string(getpid()), first.text);
  std::_Exit((int)first.end);
}

// A client that takes nothing would block this, so a thread ends the process in any case.
void end_session(Link& link, CUresult error, const Ending& ending) {
  first_of(ending);
  struct {
    uint32_t error;
    char text[sizeof(control::EndReason::text)];
  } body{error, {}};
  std::strncpy(body.text, ending.text.c_str(), sizeof body.text - 1);
  std::thread([ending] {
    poll(nullptr, 0, kFarewellMs);
    end_process(ending);
  }).detach();
  link.send(wire::Frame::session_error, &body, sizeof body);
  link.wait_for_close();
  end_process(ending);
}

void end_with_client(const Link& link) {
  std::thread([&link] {
    link.wait_for_end();
    poll(nullptr, 0, kLeaveMs);
    end_process({SessionEnd::busy, "the client is gone, and a thread waits for the driver"});
  }).detach();
}

}  // namespace busbar::server
