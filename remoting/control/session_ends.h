// The ways in which sessions end, and their texts, which the agent, the REST API and the console
// show. nodes/protocol/session_ends.py is generated from this header; see
// remoting/codegen/control_layouts.py.
#pragma once

namespace busbar::control {

// Reasons that the launcher has.
constexpr char kReleased[] = "its allocation was released";  // the appliance says by whom
constexpr char kTooLate[] = "its work did not end for ";     // N s; the appliance names the pool
constexpr char kNodeStopped[] = "the node was stopped";
constexpr char kEndedUnseen[] = "the session server ended while no launcher was running";
constexpr char kEnded[] = "the session server ended";

// Exit codes of session servers. 1 is left to the tools that exit with it.
enum class SessionEnd : int {
  closed = 0,         // its client said so
  start_failed = 2,   // the launcher or the environment was not as expected
  node_failed = 3,    // without driver or GPU
  client_failed = 4,  // the client did not complete the connection
  told = 5,           // the launcher said so, and knows the reason
  client_gone = 6,    // the connection ended
  malformed = 7,      // the client broke the protocol
  memory_failed = 8,  // a suspension failed half-way
  busy = 9,           // the client has gone, closing the session or not, and the driver is busy
};

// Returns the reason of an exit code; null if it is none of these, or `told`.
constexpr const char* reason_of(int exit_code) {
  switch ((SessionEnd)exit_code) {
    case SessionEnd::closed: return "the client closed it";
    case SessionEnd::start_failed:
      return "the session server could not start; see the launcher's log";
    case SessionEnd::node_failed: return "the driver or a GPU is missing; see the launcher's log";
    case SessionEnd::client_failed: return "the client did not complete its connection";
    case SessionEnd::client_gone: return "the client's connection ended without a close";
    case SessionEnd::malformed: return "the client sent a malformed record";
    case SessionEnd::memory_failed: return "its memory could not be moved; see the launcher's log";
    case SessionEnd::busy: return "the client is gone, and the driver has not finished its work";
    case SessionEnd::told: break;
  }
  return nullptr;
}

}  // namespace busbar::control
