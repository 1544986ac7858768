// The executor of a session: takes records from the link in order and lets them take effect. It
// runs four stages:
//   decode    RecordReader: bytes to records
//   order     RecordOrder and StreamQueues: what runs now, and what waits
//   submit    submit() and the handlers: calls of the driver
//   complete  FenceRecorder and Completions: what the client learns, and when
// Handlers that may wait run on helper threads: the executor never waits for anything that only it
// can make progress on (ADR 56).
//
// Thread safety: one thread calls run(), or process() and advance(). wake(), suspend() and resume()
// may be called from any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "server/completions.h"
#include "server/fence_recorder.h"
#include "server/pipeline.h"
#include "server/record_order.h"
#include "server/record_reader.h"
#include "server/session_end.h"
#include "server/stream_queue.h"
#include "server/suspension.h"
#include "server/worker.h"

namespace busbar::server {

class Executor {
 public:
  explicit Executor(Session& s);

  // Runs until the client leaves.
  Ending run();
  // Runs the whole records at the front of `p` and sets `used` to their bytes. False when a record
  // is malformed.
  bool process(const uint8_t* p, uint64_t n, uint64_t& used);
  // Runs the parked records whose dependencies are met and publishes completions.
  void advance();
  // Ends a wait of run(): bulk bytes have arrived, for example.
  void wake();
  // Suspend the session, see Suspension::request(), and resume it before it has records.
  void suspend(uint32_t patience_ms, uint64_t host_bytes);
  void resume();

 private:
  // The received bytes; those before `used` have been processed.
  struct Input {
    std::vector<uint8_t> bytes;
    uint64_t used = 0;
    bool empty() const { return used == bytes.size(); }
    void discard_used();
  };
  Ending malformed(const std::string& what) const;
  void end_holds();
  int patience_ms() const;  // until the executor looks again
  bool receive(Input& input);
  bool holds_records(const Input& input);
  bool wait_in_suspension(Input& input);
  bool prepare_sleep();
  bool awaits_completions() const;  // parked records, or the end of a turn
  bool process(Input& input);
  bool poll_link(std::vector<uint8_t>& buffer);
  bool handle_whole(Record& r);
  bool handle(Record& r);
  bool submit_or_park(Record& r, Admission admission);
  bool run_immediate(Record& r);
  void flush_kernel_output();
  bool limit_held_records();

  Session& s_;
  RecordReader reader_;
  StreamQueues queues_;
  RecordOrder order_;
  Completions completions_;
  FenceRecorder fences_;
  Workers workers_;
  Pipeline pipeline_;
  Suspension suspension_;
  bool malformed_ = false;       // a parked record was malformed
  bool holds_too_much_ = false;  // the client sends on although it is paused
  uint64_t launches_flushed_ = 0;
  uint64_t progress_ = 0;  // of completions_, before the newest run of parked records
};

}  // namespace busbar::server
