#include "client/stream.h"

#include "client/link.h"

namespace busbar::client {

Stream::~Stream() {
  if (link && !legacy) link->track(id, nullptr);
}

StreamRef retain(Stream* s) {
  return s && !s->legacy ? s->weak_from_this().lock() : StreamRef(StreamRef(), s);
}

void record_submission(Stream* s, uint64_t position) {
  uint64_t last = s->progress.last.load(std::memory_order_relaxed);
  while (last < position &&
         !s->progress.last.compare_exchange_weak(last, position, std::memory_order_acq_rel)) {
  }
}

CUresult wait_for(Stream* s, uint64_t position) {
  Link* link = s->link;
  auto done = [&] {
    return s->progress.reached(position);
  };
  if (position == 0 || done()) return link->error();
  link->count_wait();
  return link->wait_until(done);
}

}  // namespace busbar::client
