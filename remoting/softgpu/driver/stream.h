// Streams. A stream is a queue of operations; a position is the number of operations up to and
// including one. Threads of the context run the streams whose next operation may start.
//
// Thread safety: Context::mutex guards a stream, except members that do not change: context,
// blocking, legacy, priority and id.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace softgpu {

struct Context;
struct Capture;
struct GraphNode;
struct StreamState;
using StreamRef = std::shared_ptr<StreamState>;

// A position of another stream that must be complete before an operation starts.
struct StreamDependency {
  StreamRef stream;
  uint64_t position;
};

inline std::atomic<uint64_t> g_last_stream_id{0};

struct StreamState {
  Context* context = nullptr;
  bool blocking = true;  // ordered with the legacy stream
  bool legacy = false;   // the default stream of the context
  bool closing = false;  // destroyed by the program
  int priority = 0;      // -5 (highest) to 0
  uint64_t id = ++g_last_stream_id;
  uint64_t enqueued = 0;  // operations so far
  uint64_t completed = 0;
  static constexpr uint64_t kNone = UINT64_MAX;
  // The lowest position that a thread waits for. Waiting threads are notified when it is complete.
  uint64_t awaited = kNone;
  struct Operation {
    std::function<CUresult()> run;
    std::vector<StreamDependency> dependencies;
  };
  std::deque<Operation> queue;
  enum class Turn { none, waits, runs };
  Turn turn = Turn::none;          // waits: among the waiters of another stream; runs: has a thread
  std::vector<StreamRef> waiters;  // streams whose next operation waits for this one
  std::shared_ptr<Capture> capture;         // not null: calls become nodes of its graph
  std::vector<GraphNode*> tail;             // dependencies of the next captured call
  std::vector<CUgraphEdgeData> tail_edges;  // from them, for queries: of the default kind
  std::map<CUstreamAttrID, CUstreamAttrValue> attributes;  // that the program has set
};

}  // namespace softgpu
