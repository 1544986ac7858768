// A CUDA stream: its progress and its capture.
//
// Thread safety: all functions may be called from any thread. Guards stand beside the members.
#pragma once
#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>

#include "client/progress.h"

namespace busbar::client {

class Link;
struct Capture;
struct Context;

struct Stream : std::enable_shared_from_this<Stream> {
  Context* context = nullptr;
  Link* link = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;  // CUstream_flags
  int priority = 0;    // -5 (highest) to 0
  bool legacy = false;
  Progress progress;
  std::atomic<int> host_functions{0};  // submitted and not complete
  uint64_t after_upload = 0;  // of mapped memory: its position; guarded by the mutex of mapped.cc
  std::atomic<bool> capturing{false};
  std::shared_ptr<Capture> capture;                        // guarded by the mutex of capture.cc
  std::map<CUstreamAttrID, CUstreamAttrValue> attributes;  // guarded by the context's mutex
  void* handle = nullptr;
  ~Stream();
};

// Events, host functions and waits keep a stream that the program has destroyed.
using StreamRef = std::shared_ptr<Stream>;

// Return a reference to a stream. The legacy stream belongs to its context, which is never freed,
// so its reference owns nothing.
StreamRef retain(Stream* s);

// Advances the newest submitted position of a stream.
void record_submission(Stream* s, uint64_t position);

// Waits until a position of a stream is complete. Returns the sticky error of the link. The node
// publishes completions whenever its ring runs empty, so no request is sent.
CUresult wait_for(Stream* s, uint64_t position);

// Waits for all work submitted so far.
inline CUresult wait_for_submitted(Stream* s) {
  return wait_for(s, s->progress.last.load());
}

}  // namespace busbar::client
