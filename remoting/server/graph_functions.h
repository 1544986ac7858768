// Host functions of the program that run inside graphs. The driver calls a function of ours, which
// sends a frame to the client and blocks until the client has run the program's function.
//
// Thread safety: `GraphFunctions::mutex` guards all members and ProgramFunction::outputs.
#pragma once
#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace busbar::server {

struct Session;

// The data of the driver's callback. It lives as long as the session, because a graph may be
// launched at any time.
struct ProgramFunction {
  Session* session;
  uint64_t id;                 // the client's id
  std::set<uint32_t> outputs;  // graph buffers that are filled when the function runs
};

struct GraphFunctions {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t next_call = 1;
  std::set<uint64_t> waiting;  // calls that the client has not completed
  std::unordered_map<const void*, std::shared_ptr<ProgramFunction>> known;  // by callback data
};

// The callback of every host function of the program, and the data for the function `id`; null if
// the session has kMaxListElements.
CUhostFn graph_callback();
void* graph_callback_data(Session& s, uint64_t id);

}  // namespace busbar::server
