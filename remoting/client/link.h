// One node's side of a session: the ring, its sender and receiver thread, answers, completion
// counters, the bulk connection.
#pragma once
#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/order_through_node.h"
#include "client/rows.h"
#include "transport/ring.h"
#include "transport/shared_memory.h"
#include "transport/tls.h"
#include "wire/decode.h"
#include "wire/encode.h"

namespace busbar::client {

struct Endpoint {
  std::string address;
  int port = 0;
};

// What `busbar run` wrote for one node.
struct NodeTicket {
  std::string node_id, ticket;
  std::vector<Endpoint> endpoints;  // tried in order
};

struct Answer {
  uint32_t status = 0;
  std::string body;
};

// Where a stream stands. `last` is the newest record, `completed` what the server has published.
struct Progress {
  std::atomic<uint64_t> last{0}, completed{0};
  bool done() const {
    return completed.load(std::memory_order_acquire) >= last.load(std::memory_order_acquire);
  }
};

bool wants_shared_memory();

class Link {
 public:
  // Connects, proves the key, opens a session. `free_addresses` are offered to the node;
  // `description` is what it says of its devices. False with a sentence that says which endpoint
  // failed and why.
  bool open(const NodeTicket& node, const std::string& ca_pem, const transport::Secret& key,
            const std::vector<uint64_t>& free_addresses, std::string& description,
            std::string& error);

  uint64_t submit(const uint8_t* record, uint32_t bytes) {
    order_.leave();
    return records_->submit(record, bytes);
  }
  Answer ask(uint64_t id, const uint8_t* record, uint32_t bytes);  // submits and waits
  void note_wait() { waits_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t waits() const {
    return waits_;
  }  // how often a thread stood still for the node, the opening included
  uint64_t next_id() { return ids_.fetch_add(1, std::memory_order_relaxed); }

  void watch(uint32_t stream, Progress* progress);  // completions of this stream go there
  // Waits until `done` holds or the link failed. Spins for a moment, then sleeps.
  CUresult wait(const std::function<bool()>& done);
  CUresult error() const { return (CUresult)error_.load(std::memory_order_acquire); }
  void fail(CUresult error, const std::string& why);

  // Host bytes to the node; returns the transfer's number. Blocks while too much is under way.
  uint64_t upload(const void* data, uint64_t bytes);
  uint64_t expect(void* to, uint64_t bytes) {
    return expect(Rows::flat(to, bytes), 0, bytes);
  }  // the number of a transfer from the node
  uint64_t expect(
      const Rows& to, uint64_t offset,
      uint64_t bytes);  // it fills the packed range [offset, offset + bytes) of the rows
  // Bytes of a graph's copy that come before the graph is done. `rows` stay known for the life of
  // the link.
  void know_staging(uint32_t staging, const Rows& rows) {
    std::lock_guard lock(mutex_);
    staged_[staging] = rows;
  }
  // Bytes for the node in shared memory: what a record names in the place of a transfer. 0: there
  // is none, or the link failed.
  uint64_t lay_out(const void* data, uint64_t bytes);
  // Takes in what lies in shared memory: before a question that no thread waits for. One load when
  // there is nothing. Whoever has the lock looks again after giving it back, so that no frame is
  // left to nobody.
  void glance() {
    if (shared_ && shared_->frames_waiting()) take_frames();
  }
  bool on_one_machine() const { return shared_ != nullptr; }
  bool open_bulk();
  std::function<void(uint64_t)> on_host_function;
  std::function<void(uint64_t id, uint64_t round)> on_graph_function;

  void goodbye();  // at exit: bounded to one second
  bool is_session(const uint8_t* id) const {
    return !__builtin_memcmp(id, session_id_, sizeof session_id_);
  }
  const std::string& node_id() const { return node_id_; }

 private:
  bool open_at(const Endpoint& e, const NodeTicket& node, const std::string& ca_pem,
               const transport::Secret& key, const std::vector<uint64_t>& free_addresses,
               std::string& description, std::string& error);
  bool open_session(transport::Tls& launcher, const std::vector<uint64_t>& free_addresses,
                    std::string& description, std::string& error);
  bool read_reply(transport::Tls& launcher, wire::OpenReply& reply, std::string& description,
                  std::string& error);
  void start_threads();
  template <typename F>
  void start(F body) {  // a thread of the link's own, which takes no signal of the program's
    ++threads_;
    std::thread([this, body] {
      block_signals();
      body();
      --threads_;
    }).detach();
  }
  static void block_signals();
  void run();
  void run_shared();
  void watch_socket();
  bool receive_shared();
  void take_frames();
  bool help(const std::function<bool()>& done);
  bool parse_frames();
  bool send_some();
  bool receive_some();
  bool frame(const wire::FrameHeader& h, const uint8_t* p);
  void completion(wire::Decoder d);
  bool write_program_memory(uint8_t* to, const uint8_t* from, uint64_t bytes);
  bool deliver_output(uint32_t staging, uint64_t offset, const uint8_t* from, uint64_t bytes);
  bool deliver(uint64_t transfer, uint64_t offset, const void* p, uint64_t bytes);
  bool receive_bulk_frame();
  void wait_for_bulk(uint64_t bytes);
  void bulk_lost();
  bool write_bulk(const void* p, size_t n);
  bool flush_bulk();
  void announce();
  std::unique_ptr<transport::Ring> ring_;  // of this process, where TLS carries what is in it
  transport::Ring* records_ = nullptr;
  std::unique_ptr<transport::SharedMemory> shared_;  // null: records and frames go over TLS
  std::mutex receive_mutex_;  // who reads frames: the link's thread, or one that waits
  std::atomic<bool> peer_gone_{false}, helping_{false};
  int socket_ = -1;
  transport::Tls tls_;  // over the socket, where it carries anything
  std::vector<uint8_t> inbox_;
  const uint8_t* sending_ = nullptr;
  uint64_t sending_bytes_ = 0, sent_ = 0;
  std::atomic<uint64_t> ids_{1}, waits_{0};
  std::atomic<uint32_t> error_{0}, epoch_{0}, sleepers_{0};
  std::mutex mutex_;  // answers, progress, transfers
  std::unordered_map<uint64_t, Answer*> answers_;
  std::unordered_map<uint32_t, Progress*> progress_;
  struct Incoming {
    Rows to;
    uint64_t offset, bytes, left;
  };
  std::unordered_map<uint64_t, Incoming> incoming_;
  std::unordered_map<uint32_t, Rows> staged_;
  std::atomic<bool> leaving_{false};
  std::atomic<int> threads_{0};
  std::string node_id_;
  Endpoint endpoint_;
  transport::Secret session_key_{};
  OrderThroughNode order_;
  uint8_t session_id_[16] = {};
  std::mutex bulk_send_mutex_, bulk_mutex_;  // one sender at a time; the connection itself
  transport::Tls bulk_;
  std::atomic<bool> bulk_open_{false};
  uint64_t bulk_sent_ = 0;
  std::atomic<uint64_t> bulk_credit_{0}, bulk_received_{0};
};

}  // namespace busbar::client
