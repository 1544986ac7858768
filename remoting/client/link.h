// The link to one session server: records, replies, completions and transfers.
//
// Files: link_open.cc (connection set-up), link.cc (calls, waiting, TLS thread), link_shared.cc
// (shared memory), link_frames.cc (received frames), link_bulk.cc (bulk connection),
// link_program_memory.cc (writes to the program's memory).
//
// Thread safety: public members may be called from any thread, except open(), which must come
// first. submit() takes no lock; it blocks while the ring is full or the node has too many records.
// call(), wait_until(), upload() and write_shared_chunk() block. Locks: mutex_ is held while no
// other lock is taken. receive_mutex_ is held by the thread that reads frames from shared memory;
// mutex_ may be taken under it. bulk_open_mutex_ is held by the thread that opens the bulk
// connection, bulk_send_mutex_ by the thread that sends on it, which may wait for credit, and
// bulk_mutex_ during one operation on that connection. parts_mutex_ is held by the thread that
// submits a record in parts.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/address_map.h"
#include "client/kernel_output.h"
#include "client/progress.h"
#include "client/reply_order.h"
#include "client/rows.h"
#include "client/ticket_file.h"
#include "mutex.h"
#include "transport/ring.h"
#include "transport/shared_memory.h"
#include "transport/tls.h"
#include "wire/decode.h"
#include "wire/encode.h"

namespace busbar::client {

struct Reply {
  uint32_t status = 0;  // CUresult, or wire::kImageRequired
  std::string body;
};

class Link {
 public:
  // `addresses` identifies pinned memory of this library; it must outlive the link.
  explicit Link(const AddressMap& addresses) : addresses_(addresses) {}

  // Opens a session at the first endpoint that accepts it. Offers `free_addresses` for arenas and
  // returns the description of the devices. On failure, `error` holds the reason of each endpoint.
  bool open(const NodeTicket& node, const transport::Secret& key,
            const std::vector<uint64_t>& free_addresses, std::string& description,
            std::string& error);

  // Submits a finished record. Returns its position, or 0 if the link has failed. Blocks while the
  // node has too many records of its stream.
  uint64_t submit(const uint8_t* record, uint32_t bytes) {
    if (any_paused_.load(std::memory_order_relaxed)) wait_while_paused(record);
    return submit_now(record, bytes);
  }
  // The same for a record that other records may wait for, or whose reply the caller waits for.
  uint64_t submit_now(const uint8_t* record, uint32_t bytes) {
    if (bytes > wire::kMaxRecordBytes) return submit_in_parts(record, bytes);
    order_.before_submit();
    return records_->submit(record, bytes);
  }
  // Submits a record that contains the reply id `id` and waits for the reply.
  Reply call(uint64_t id, const uint8_t* record, uint32_t bytes);
  uint64_t next_id() { return ids_.fetch_add(1, std::memory_order_relaxed); }

  // Number of times that a thread waited for the node, including the set-up of the connection.
  void count_wait() { waits_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t waits() const { return waits_; }

  // Routes completions of a stream to `progress`; null stops this.
  void track(uint32_t stream, Progress* progress);
  // Waits until `done` returns true or the link fails. Busy-waits briefly, then sleeps.
  CUresult wait_until(const std::function<bool()>& done);
  // Handles frames that wait in shared memory; costs one load if there are none. Call it before
  // progress is read without waiting. The thread that holds receive_mutex_ checks again after the
  // release, so that no frame stays unread.
  void poll_frames() {
    if (shared_ && shared_->has_frames()) read_frames();
  }
  CUresult error() const { return (CUresult)error_.load(std::memory_order_acquire); }
  // Sets the sticky error, unless one is set, and wakes all waiting threads.
  void fail(CUresult error, const std::string& reason);

  // Sends host bytes over the bulk connection. Returns the number of the transfer, or 0 if the link
  // has failed. Blocks while the credit is used up.
  uint64_t upload(const void* data, uint64_t bytes);
  // A second target of a transfer: the byte for `first + i` is also written to byte i of `bytes`.
  struct SecondTarget {
    std::shared_ptr<std::vector<uint8_t>> bytes;
    const uint8_t* first = nullptr;
  };
  // Registers the target of a transfer from the node and returns its number. It fills the packed
  // range [offset, offset + bytes) of the rows.
  uint64_t expect_transfer(const Rows& to, uint64_t offset, uint64_t bytes,
                           const SecondTarget& second);
  uint64_t expect_transfer(const Rows& to, uint64_t offset, uint64_t bytes) {
    return expect_transfer(to, offset, bytes, {});
  }
  uint64_t expect_transfer(void* to, uint64_t bytes) {
    return expect_transfer(Rows::flat(to, bytes), 0, bytes);
  }
  // Return whether a transfer is still to write to a range of host memory.
  bool is_receiving(const uint8_t* host, uint64_t bytes) {
    MutexLock lock(mutex_);
    return std::ranges::any_of(incoming_, [&](auto& entry) {
      const Rows& to = entry.second.to;
      return to.base < host + bytes && host < to.base + to.span();
    });
  }
  // Return whether bytes of a transfer are still to come.
  bool is_expected(uint64_t transfer) {
    MutexLock lock(mutex_);
    return incoming_.count(transfer) > 0;
  }
  // Registers the host memory behind a staging buffer of a graph, for the life of the link.
  void register_staging(uint32_t staging, const Rows& rows) {
    MutexLock lock(mutex_);
    staged_[staging] = rows;
  }
  // Copies bytes into a chunk of shared memory. Returns the value that a record carries instead of
  // a transfer number, or 0 if there is no shared memory or the link has failed.
  uint64_t write_shared_chunk(const void* data, uint64_t bytes);
  bool uses_shared_memory() const { return shared_ != nullptr; }

  // Of the partition behind a device of the node, as the newest frame says.
  struct PartitionSize {
    std::atomic<uint64_t> bytes{0};
    std::atomic<bool> is_exceeded{false};  // it has shrunk: what is unused is to be returned
  };
  const PartitionSize& partition_size(uint32_t device) const { return partition_sizes_[device]; }
  // Sets the size that the description has, unless a frame has brought a newer one.
  void describe_partition(uint32_t device, uint64_t bytes) {
    uint64_t unknown = 0;
    partition_sizes_[device].bytes.compare_exchange_strong(unknown, bytes);
  }

  KernelOutput kernel_output;
  // Called on a thread of its own when another session needs memory: returns what is unused, at
  // once and when work ends. It calls `wait` before it looks again; that blocks for some time, and
  // returns false when memory is wanted again or the link has failed. Set before open().
  std::function<void(const std::function<bool()>& wait)> return_memory;
  // Called by the thread that reads frames; must not block. Set before open().
  std::function<void(uint64_t id)> on_host_function;
  std::function<void(uint64_t id, uint64_t round)> on_graph_function;

  // Ends the session at exit. Blocks for at most one second.
  void close();
  // In a forked child, closes the connections that the child inherited and sends nothing: the
  // session ends with its program. Only release_after_fork() may be called from then on.
  void close_after_fork() NO_THREAD_SAFETY_ANALYSIS;
  void release_after_fork();  // the memory of the link
  bool is_session(const uint8_t* id) const {
    return !__builtin_memcmp(id, session_id_, sizeof session_id_);
  }

 private:
  // link_open.cc
  bool open_endpoint(const Endpoint& e, const std::string& ticket, const transport::Secret& key,
                     const std::vector<uint64_t>& free_addresses, std::string& description,
                     std::string& error);
  bool open_session(transport::Tls& launcher, const std::vector<uint64_t>& free_addresses,
                    std::string& description, std::string& error);
  bool read_reply(transport::Tls& launcher, wire::OpenReply& reply, std::string& description,
                  std::string& error);
  bool start_carrier(transport::Tls& launcher, transport::Tls session, bool offered_shared_memory,
                     std::string& error);

  // link.cc
  void run_tls();
  bool send_some();
  bool receive_some();
  void wake_waiters();
  void wait_while_paused(const uint8_t* record);
  // Starts a detached thread in which all signals of the program are blocked.
  template <typename F>
  void start_thread(F body) {
    ++threads_;
    std::thread([this, body] {
      block_signals();
      body();
      --threads_;
    }).detach();
  }
  uint64_t submit_in_parts(const uint8_t* record, uint32_t bytes);
  uint64_t submit_part(const wire::RecordHeader& head, const uint8_t* payload, uint32_t bytes)
      REQUIRES(parts_mutex_);
  static void block_signals();
  void start_threads();

  // link_shared.cc
  void run_shared();
  void watch_socket();
  bool receive_shared() REQUIRES(receive_mutex_);
  bool end_without_frames();
  void read_frames();
  bool poll_until(const std::function<bool()>& done);

  // link_frames.cc
  bool parse_frames();
  bool handle_frame(const wire::FrameHeader& h, const uint8_t* p);
  bool handle_reply(wire::Decoder d);
  bool handle_shared_data(wire::Decoder d);
  bool handle_graph_output(wire::Decoder d);
  bool handle_pause(wire::Decoder d);
  bool handle_partition_size(wire::Decoder d);
  bool want_memory();
  void handle_memory_wanted();
  void answer_memory_wanted();
  void handle_completion(wire::Decoder d);
  bool deliver_graph_output(uint32_t staging, uint64_t offset, const uint8_t* from, uint64_t bytes);
  bool deliver_transfer(uint64_t transfer, uint64_t offset, const void* p, uint64_t bytes);

  // link_program_memory.cc
  bool is_pinned(const uint8_t* to, uint64_t bytes) const;
  bool write_program_memory(uint8_t* to, const uint8_t* from, uint64_t bytes);

  // link_bulk.cc
  bool open_bulk(int patience_ms);
  bool connect_bulk() REQUIRES(bulk_open_mutex_);
  bool read_bulk(void* p, size_t n);
  bool receive_bulk_chunk();
  void wait_for_bulk(uint64_t bytes);
  void fail_bulk();
  bool write_bulk(const void* p, size_t n) REQUIRES(bulk_send_mutex_);
  bool flush_bulk() REQUIRES(bulk_send_mutex_);
  int bulk_fd();

  const AddressMap& addresses_;
  std::unique_ptr<transport::Ring> ring_;  // with TLS: records that the link's thread sends
  transport::Ring* records_ = nullptr;     // `ring_`, or the ring in shared memory
  std::unique_ptr<transport::SharedMemory> shared_;  // null: records and frames travel over TLS
  Mutex receive_mutex_;
  std::atomic<bool> peer_gone_{false};
  std::atomic<bool> polling_{false};  // a waiting thread reads the frames for all others
  int socket_ = -1;
  transport::Tls tls_;          // without shared memory
  std::vector<uint8_t> inbox_;  // received bytes up to an incomplete frame
  const uint8_t* sending_ = nullptr;
  uint64_t sending_bytes_ = 0, sent_ = 0;  // of the records at `sending_`
  std::atomic<uint64_t> ids_{1}, waits_{0};
  std::atomic<uint32_t> error_{0};       // CUresult; sticky
  std::atomic<bool> any_paused_{false};  // `paused_` is not empty
  std::atomic<uint32_t> epoch_{0};       // futex word: incremented after received frames
  std::atomic<uint32_t> sleepers_{0};    // threads that wait on `epoch_`
  Mutex mutex_;
  std::unordered_map<uint64_t, Reply*> replies_ GUARDED_BY(mutex_);      // by reply id
  std::unordered_map<uint32_t, Progress*> progress_ GUARDED_BY(mutex_);  // by stream
  // Streams of which the node has too many records.
  std::unordered_set<uint32_t> paused_ GUARDED_BY(mutex_);
  struct Incoming {
    Rows to;
    uint64_t offset, bytes, left;
    SecondTarget second;
  };
  std::unordered_map<uint64_t, Incoming> incoming_ GUARDED_BY(mutex_);  // by transfer
  std::unordered_map<uint32_t, Rows> staged_ GUARDED_BY(mutex_);        // by staging buffer
  std::atomic<bool> closing_{false};
  std::atomic<uint32_t> memory_wanted_{0};  // futex word: times that a thread is to answer
  std::atomic<int> threads_{0};
  std::string node_name_;
  Endpoint endpoint_;
  transport::Secret session_key_{};
  ReplyOrder order_;
  std::array<PartitionSize, wire::kMaxDevices> partition_sizes_;  // by device of the node
  uint8_t session_id_[16] = {};
  Mutex parts_mutex_;
  Mutex bulk_open_mutex_, bulk_send_mutex_, bulk_mutex_;
  transport::Tls bulk_ GUARDED_BY(bulk_mutex_);
  std::atomic<bool> bulk_open_{false};
  uint64_t bulk_sent_ GUARDED_BY(bulk_send_mutex_) = 0;      // bytes since the start
  uint64_t bulk_counter_ GUARDED_BY(bulk_open_mutex_) = 0;   // of bulk connections
  std::atomic<uint64_t> bulk_credit_{0}, bulk_received_{0};  // bytes since the start
};

}  // namespace busbar::client
