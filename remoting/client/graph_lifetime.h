// User objects of executable graphs that launches in progress still need.
//
// Thread safety: all functions may be called from any thread. The destructors of the program run
// without a lock, on a thread of their own if a launch is in progress.
#pragma once
#include <cstdint>
#include <map>

#include "client/stream.h"
#include "client/user_object.h"

namespace busbar::client {

// The newest launch of an executable graph in each stream.
class Launches {
 public:
  void add(Stream* s, uint64_t position) { ends_[s] = {retain(s), position}; }
  bool done() const;
  void wait() const;

 private:
  struct End {
    StreamRef stream;
    uint64_t position;
  };
  std::map<Stream*, End> ends_;
};

// Releases the objects when the launches are complete.
void release_after(UserObjects objects, Launches launches);

}  // namespace busbar::client
