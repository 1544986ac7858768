// The link over shared memory: reading of frames, and chunks for bulk data.
//
// A waiting thread reads the frames itself. This saves the switch to the link's thread.
#include <sys/socket.h>

#include <cstring>

#include "client/link.h"
#include "transport/tcp.h"

namespace busbar::client {

namespace {
constexpr size_t kReceiveBytes = 256 << 10;
constexpr int kPollRounds = 20'000;  // that a waiting thread polls the frames before it sleeps
const int kIdleRounds = std::thread::hardware_concurrency() < 4 ? 5 : 200;
// Rounds between yields of a polling thread: with few cores, other threads need its core.
const int kYieldRounds = std::thread::hardware_concurrency() < 4 ? 32 : 256;
constexpr int kSleepMs = 1000;
}  // namespace

// The connection carries no data. It becomes readable when its other end closes.
void Link::watch_socket() {
  while (!error() && !transport::socket_ready(socket_, false, kSleepMs)) {
  }
  peer_gone_ = true;
  shared_->wake_reader();
}

bool Link::receive_shared() {
  if (!shared_->read(inbox_, kReceiveBytes)) return false;
  parse_frames();
  return true;
}

void Link::read_frames() {
  bool moved = true;
  while (moved && shared_->has_frames() && receive_mutex_.try_lock()) {
    moved = receive_shared();
    receive_mutex_.unlock();
  }
}

// Ends the link unless frames are left. A thread that has read the last ones, perhaps the reason of
// the end, parses them before it unlocks.
bool Link::end_without_frames() {
  MutexLock lock(receive_mutex_);
  if (shared_->has_frames()) return false;
  fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the session server on the node ended");
  return true;
}

void Link::run_shared() {
  int idle = 0;
  while (!error()) {
    bool moved = false;
    if (shared_->has_frames()) {
      // A waiting thread may hold the lock without running: do not spin while there are frames.
      MutexLock lock(receive_mutex_);
      moved = receive_shared();
    }
    if (moved) {
      idle = 0;
      continue;
    }
    if (peer_gone_ && end_without_frames()) break;
    if (++idle < kIdleRounds) {
      __builtin_ia32_pause();
      continue;
    }
    shared_->sleep_for_frames(kSleepMs);
    idle = 0;
  }
  shared_->records().close();
  ::shutdown(socket_, SHUT_RDWR);  // the session server ends before this process does
}

// Reads frames until `done` returns true. Returns false after kPollRounds, or at once if another
// thread does this: one thread reads for all that wait.
bool Link::poll_until(const std::function<bool()>& done) {
  if (polling_.exchange(true, std::memory_order_acquire)) return false;
  shared_->add_poller();
  bool finished = false;
  for (int i = 0; i < kPollRounds && !finished && !error(); ++i) {
    if (shared_->has_frames() && receive_mutex_.try_lock()) {
      receive_shared();
      receive_mutex_.unlock();
    } else
      __builtin_ia32_pause();
    finished = done();
    if (i % kYieldRounds == kYieldRounds - 1) std::this_thread::yield();
  }
  shared_->remove_poller();
  polling_.store(false, std::memory_order_release);
  poll_frames();  // the writer woke no reader for frames that arrived meanwhile
  return finished;
}

uint64_t Link::write_shared_chunk(const void* data, uint64_t bytes) {
  int chunk = -1;
  if (!shared_ || bytes > transport::kSharedChunkBytes) return 0;
  if (wait_until([&] { return chunk >= 0 || (chunk = shared_->acquire_chunk(true)) >= 0; }))
    return 0;
  order_.after_receive();  // the node has read the previous content
  std::memcpy(shared_->chunk(true, (uint32_t)chunk), data, bytes);
  return wire::kSharedChunkFlag | (uint64_t)chunk;
}

}  // namespace busbar::client
