#include "client/link.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "transport/futex.h"
#include "transport/tcp.h"

namespace busbar::client {

namespace {
// Rounds without traffic before the TLS thread sleeps. With few cores, a busy-waiting thread takes
// processor time from the thread that it waits for.
const int kIdleRounds = std::thread::hardware_concurrency() < 4 ? 60 : 2000;
// With few cores it may run beside the thread that submits: without an early yield that thread
// stood still for 60 us after each wake-up, and 1,000 launches took 1,500 us in place of 40.
const int kYieldAfterRounds = std::thread::hardware_concurrency() < 4 ? 2 : 100;
// Rounds that a waiting thread checks its condition before it sleeps: with TLS; with shared memory
// while another thread reads the frames. With few cores the rounds take time from the threads that
// it waits for: with 4000 launches per second were 0.6 of those with 400 (docs/benchmarks.md).
const int kTlsWaitRounds = std::thread::hardware_concurrency() < 4 ? 400 : 4000;
constexpr int kSharedWaitRounds = 100;
constexpr int kYieldAfterWaitRounds = 200;
constexpr uint64_t kSendBytes = 64 << 10;
constexpr int kPollMs = 10'000, kSleepMs = 1000, kCloseMs = 1000;
}  // namespace

// ---- threads ----
// SIGPIPE stays pending in these threads.
void Link::block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void Link::start_threads() {
  if (!shared_) return start_thread([this] { run_tls(); });
  start_thread([this] { run_shared(); });
  start_thread([this] { watch_socket(); });
}

bool Link::send_some() {
  if (!sending_bytes_) {
    sending_ = ring_->peek(kSendBytes, sending_bytes_);
    sent_ = 0;
  }
  if (!sending_bytes_) return false;
  ssize_t n = tls_.write_some(sending_ + sent_, sending_bytes_ - sent_);
  if (n < 0) {
    fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the connection to the node broke");
    return false;
  }
  sent_ += (uint64_t)n;
  if (sent_ == sending_bytes_) {
    ring_->consume(sending_bytes_);
    sending_bytes_ = 0;
  }
  return n > 0;
}

bool Link::receive_some() {
  uint8_t record[transport::kTlsRecordBytes];
  ssize_t n = tls_.read_some(record, sizeof record);
  if (n > 0) inbox_.insert(inbox_.end(), record, record + n);
  if (n < 0) {
    fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "the session server on the node ended");
    return false;
  }
  if (n > 0) parse_frames();
  return n > 0;
}

void Link::run_tls() {
  int idle = 0;
  while (!error()) {
    bool moved = send_some();
    moved = receive_some() || moved;
    if (moved) {
      idle = 0;
      continue;
    }
    if (++idle < kIdleRounds) {
      if (idle > kYieldAfterRounds) std::this_thread::yield();
      continue;
    }
    if (!sending_bytes_ && !ring_->park()) {
      idle = 0;
      continue;
    }
    pollfd p[2] = {{tls_.fd(), (short)(POLLIN | (sending_bytes_ ? POLLOUT : 0)), 0},
                   {ring_->wake_fd(), POLLIN, 0}};
    poll(p, 2, kPollMs);
    if (p[1].revents) ring_->clear_wake();
    ring_->unpark();
    idle = 0;
  }
  tls_.close();
}

void Link::wake_waiters() {
  epoch_.fetch_add(1);
  if (sleepers_.load()) transport::futex_wake(epoch_, transport::Scope::process);
}

void Link::fail(CUresult error, const std::string& reason) {
  uint32_t none = 0;
  if (error_.compare_exchange_strong(none, error) && !reason.empty() && !closing_)
    // Not through stderr: a thread that waits for this one may hold its lock.
    dprintf(STDERR_FILENO, "busbar: node %s: %s\n", node_name_.c_str(), reason.c_str());
  if (error == CUDA_ERROR_DEVICE_UNAVAILABLE) records_->close();
  wake_waiters();
  want_memory();  // the thread that answers is to end
}

// ---- callers ----
CUresult Link::wait_until(const std::function<bool()>& done) {
  if (shared_ && poll_until(done)) return error();
  for (int i = 0; i < (shared_ ? kSharedWaitRounds : kTlsWaitRounds); ++i) {
    if (done()) return error();
    if (error()) return error();
    if (i > kYieldAfterWaitRounds) std::this_thread::yield();
  }
  if (shared_) shared_->add_waiter();
  while (!done() && !error()) {
    uint32_t epoch = epoch_.load();
    poll_frames();
    sleepers_.fetch_add(1);
    if (!done() && !error())
      transport::futex_wait(epoch_, epoch, transport::milliseconds(kSleepMs),
                            transport::Scope::process);
    sleepers_.fetch_sub(1);
  }
  if (shared_) shared_->remove_waiter();
  return error();
}

uint64_t Link::submit_part(const wire::RecordHeader& head, const uint8_t* payload, uint32_t bytes) {
  wire::Encoder<wire::kMaxRecordBytes> e(head.opcode, head.context, head.stream);
  e.flags(head.flags).raw(payload, bytes);
  order_.before_submit();
  return records_->submit(e.finish(), e.size());
}

// The node puts the parts before the payload of the next record with the flag, so those of two
// records must not mix.
uint64_t Link::submit_in_parts(const uint8_t* record, uint32_t bytes) {
  MutexLock one(parts_mutex_);
  wire::RecordHeader head, part{0, (uint16_t)wire::Op::part, 0, 0, wire::kNoStream};
  std::memcpy(&head, record, sizeof head);
  head.flags = wire::kInParts;
  const uint8_t *at = record + sizeof head, *end = record + bytes;
  for (; end - at > wire::kPartBytes; at += wire::kPartBytes)
    if (!submit_part(part, at, wire::kPartBytes)) return 0;
  return submit_part(head, at, (uint32_t)(end - at));
}

void Link::wait_while_paused(const uint8_t* record) {
  wire::RecordHeader head;
  std::memcpy(&head, record, sizeof head);
  wait_until([&] {
    MutexLock lock(mutex_);
    return !paused_.count(head.stream) && !paused_.count(wire::kAllStreams);
  });
}

Reply Link::call(uint64_t id, const uint8_t* record, uint32_t bytes) {
  constexpr uint32_t kPending = UINT32_MAX;
  Reply reply;
  std::atomic_ref<uint32_t> status(reply.status);
  reply.status = kPending;
  {
    MutexLock lock(mutex_);
    replies_[id] = &reply;
  }
  count_wait();
  if (submit_now(record, bytes))
    wait_until([&] { return status.load(std::memory_order_acquire) != kPending; });
  MutexLock lock(mutex_);
  replies_.erase(id);
  if (reply.status == kPending) reply.status = error() ? error() : CUDA_ERROR_DEVICE_UNAVAILABLE;
  return reply;
}

void Link::track(uint32_t stream, Progress* progress) {
  MutexLock lock(mutex_);
  if (progress)
    progress_[stream] = progress;
  else
    progress_.erase(stream);
}

// The session server closes the connection, then the threads end. They must not run while the exit
// handlers of the program clean up OpenSSL.
void Link::close() {
  closing_ = true;
  wire::Encoder<> e(wire::Op::end_session, 0);
  if (!error()) submit_now(e.finish(), e.size());
  timespec pause = transport::milliseconds(1);
  for (int i = 0; i < kCloseMs && (!error() || threads_); ++i) nanosleep(&pause, nullptr);
  kernel_output.try_flush();
  // The session server is slow, but will read that the session has ended.
  if (!error() && !shared_ && transport::is_all_received(socket_))
    transport::reset_at_end(socket_, false);
}

// The TLS connections stay as they are: a thread that the child does not have may have been using
// them, with the mutex. After an error that thread closes the socket, whose number may belong to
// another file.
void Link::close_after_fork() {
  if (!error()) ::close(socket_);
  if (!error() && bulk_open_) ::close(bulk_.fd());
}

void Link::release_after_fork() {
  ring_ = nullptr;
  shared_ = nullptr;
}

}  // namespace busbar::client
