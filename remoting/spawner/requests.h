// Requests of the launcher, as the spawner receives them.
//
// Thread safety: any thread; a connection belongs to one thread at a time.
#pragma once
#include "control/spawn_messages.h"

namespace busbar::spawner {

constexpr int kMaxDescriptors = 2;

struct Request {
  control::SpawnRequest fields{};
  int attached[kMaxDescriptors] = {-1, -1};  // the receiver closes them
};

// Receive a request and its descriptors. False if it has another size or more descriptors; those
// that fit are in `attached` in any case. Blocks as long as the socket's timeout.
bool receive_request(int fd, Request& request);

}  // namespace busbar::spawner
