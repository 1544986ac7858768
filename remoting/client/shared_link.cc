// A link whose two ends are on one machine: records and frames in shared memory. A thread that
// waits reads the frames itself, so that no other thread stands between the node and it.
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "client/link.h"

namespace busbar::client {

namespace {
constexpr size_t kReceiveBytes = 256 << 10;
constexpr int kHelperRounds = 20'000;  // of looking at the frames before a thread sleeps
const int kIdleRounds = std::thread::hardware_concurrency() < 4 ? 5 : 200;
constexpr int kSleepMs = 1000;
const int kYieldEvery =
    std::thread::hardware_concurrency() < 4 ? 32 : 256;  // others need this core
}  // namespace

// BUSBAR_TRANSPORT=tls keeps to the network whatever machine the node is.
bool wants_shared_memory() {
  const char* wish = std::getenv("BUSBAR_TRANSPORT");
  return !wish || std::strcmp(wish, "tls");
}

void Link::block_signals() {  // SIGPIPE stays pending here
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void Link::start_threads() {
  if (!shared_) return start([this] { run(); });
  start([this] { run_shared(); });
  start([this] { watch_socket(); });
}

// The connection carries nothing: whatever happens on it is its end.
void Link::watch_socket() {
  while (!error() && !transport::socket_ready(socket_, false, kSleepMs)) {
  }
  peer_gone_ = true;
  shared_->wake_reader();
}

// Call with receive_mutex_.
bool Link::receive_shared() {
  if (!shared_->read(inbox_, kReceiveBytes)) return false;
  parse_frames();
  return true;
}

void Link::take_frames() {
  bool moved = true;
  while (moved && shared_->frames_waiting() && receive_mutex_.try_lock()) {
    moved = receive_shared();
    receive_mutex_.unlock();
  }
}

void Link::run_shared() {
  int idle = 0;
  while (!error()) {
    bool moved = false;
    if (receive_mutex_.try_lock()) {
      moved = receive_shared();
      receive_mutex_.unlock();
    }
    if (moved) {
      idle = 0;
      continue;
    }
    if (peer_gone_ && !shared_->frames_waiting()) {
      fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the session server on the node ended");
      break;
    }
    if (++idle < kIdleRounds) {
      __builtin_ia32_pause();
      continue;
    }
    shared_->sleep_for_frames(kSleepMs);
    idle = 0;
  }
  shared_->records().close();
  ::shutdown(socket_, SHUT_RDWR);  // the node need not wait for the process to end
}

// Reads frames until `done`; false when it took too long and somebody else should. One thread does
// it for all that wait.
bool Link::help(const std::function<bool()>& done) {
  if (helping_.exchange(true, std::memory_order_acquire)) return false;
  shared_->help(true);
  bool finished = false;
  for (int i = 0; i < kHelperRounds && !finished && !error(); ++i) {
    if (shared_->frames_waiting() && receive_mutex_.try_lock()) {
      receive_shared();
      receive_mutex_.unlock();
    } else
      __builtin_ia32_pause();
    finished = done();
    if (i % kYieldEvery == kYieldEvery - 1) std::this_thread::yield();
  }
  shared_->help(false);
  helping_.store(false, std::memory_order_release);
  glance();  // nobody was woken for what came meanwhile
  return finished;
}

uint64_t Link::lay_out(const void* data, uint64_t bytes) {
  int chunk = -1;
  if (!shared_ || bytes > transport::kSharedChunkBytes) return 0;
  if (wait([&] { return chunk >= 0 || (chunk = shared_->take_chunk(true)) >= 0; })) return 0;
  order_.arrive();  // the node has read what lay there
  std::memcpy(shared_->chunk(true, (uint32_t)chunk), data, bytes);
  return wire::kSharedTransfer | (uint64_t)chunk;
}

}  // namespace busbar::client
