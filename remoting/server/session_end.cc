#include "server/session_end.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "control/log.h"
#include "control/messages.h"

namespace busbar::server {

namespace {
constexpr int kFarewellMs = 500;  // for the client to take the reason of the end
constexpr int kLeaveMs = 5000;    // for the executor to take what the client has sent
}  // namespace

void end_process(const std::string& reason, int code) {
  control::log_line("session server", "ended", "pid " + std::to_string(getpid()), reason);
  std::_Exit(code);
}

// A client that takes nothing would block this, so a thread ends the process in any case.
void end_session(Link& link, CUresult error, const std::string& reason) {
  struct {
    uint32_t error;
    char text[sizeof(control::EndReason::text)];
  } body{error, {}};
  std::strncpy(body.text, reason.c_str(), sizeof body.text - 1);
  std::thread([reason] {
    poll(nullptr, 0, kFarewellMs);
    end_process(reason, 0);
  }).detach();
  link.send(wire::Frame::session_error, &body, sizeof body);
  link.wait_for_close();
  end_process(reason, 0);
}

void end_with_client(const Link& link) {
  std::thread([&link] {
    link.wait_for_end();
    poll(nullptr, 0, kLeaveMs);
    end_process("the client is gone, while the session server waited for its driver", 0);
  }).detach();
}

}  // namespace busbar::server
