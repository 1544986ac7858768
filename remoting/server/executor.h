// Takes records in order, lets them take effect, and parks what must wait.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "server/completions.h"
#include "server/stream_queue.h"

namespace busbar::server {

// Runs the calls that may block for long, one after the other, while the executor goes on. Its
// thread begins with the first of them.
class Helper {
 public:
  explicit Helper(Session& s) : s_(s) {}
  ~Helper();
  void post(CUcontext context, std::function<void()> work);

 private:
  void run();
  Session& s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<CUcontext, std::function<void()>>> work_;
  bool stopping_ = false;
  std::thread thread_;
};

// dispatch.cc
const GeneratedCall* generated(uint16_t opcode);  // null: no call of the specification
struct Expected {
  uint64_t transfer = 0, bytes = 0;
};
Expected bytes_for(const Record& r);  // the bulk bytes that a record cannot run without

class Executor {
 public:
  explicit Executor(Session& s);

  // Runs until the client leaves. The reason is empty for an orderly end.
  std::string run();
  // Whole records from the front of `p`; how many bytes they were. False when one is malformed.
  bool process(const uint8_t* p, uint64_t n, uint64_t& used);
  // Bulk bytes came or a parked stream may go on: from any thread.
  void nudge();

 private:
  bool spin(std::vector<uint8_t>& buffer);
  bool take(const uint8_t* p, uint64_t n, uint64_t& used);
  bool handle(const Record& r);
  bool reply_call(const Record& r);
  void print_what_is_left();
  bool note_refused(wire::Decoder in);
  bool generated_reply(const GeneratedCall& g, const Record& r);
  bool admit(Record r);
  std::vector<Gate> gates_for(const Record& r, const StreamState& st) const;
  void global(const Record& r);
  void run_record(const Record& r);
  void run_global(const Record& r);
  void launch(const Record& r, StreamState& st);
  void copy_in(const Record& r, StreamState& st);
  void copy_out(const Record& r, StreamState& st);
  const uint8_t* shared_bytes(uint64_t transfer, uint64_t bytes);
  int shared_room(uint64_t bytes);
  bool take_bytes(wire::Decoder& in, uint64_t transfer, uint64_t bytes, std::vector<uint8_t>& out,
                  uint64_t& consumed);
  void copy_rows(const Record& r, StreamState& st);
  void stage(const Record& r, StreamState& st);
  void launch_graph(const Record& r, StreamState& st);
  bool stream_reply(const Record& r);
  void begin_capture(const Record& r, StreamState& st);
  void end_capture(const Record& r, StreamState& st);
  void capture_info(const Record& r, StreamState& st);
  void update_capture(const Record& r, StreamState& st);
  void follow_capture(StreamState& st);
  void create_context(wire::Decoder in);
  void destroy_context(uint32_t id);
  void create_stream(const Record& r);
  void bind_event(Record& r);
  void elapsed(wire::Decoder in);
  void query_event(wire::Decoder in);
  void host_function_done(wire::Decoder in);
  void use_context(uint32_t id);
  void mark(StreamState& st, uint64_t position, Mark m = {});
  void put_mark(StreamState& st, uint64_t position, Mark m);
  void mark_dirty(const StreamState* except = nullptr);
  void mark_legacy();
  void check(CUresult r, uint64_t position) {
    if (r) completions_.fail(r, position);
  }
  // On a stream that is captured an error belongs to the capture.
  void check(CUresult r, uint64_t position, StreamState& st) {
    if (r && st.capturing) {
      if (!st.capture_error) st.capture_error = r;
    } else
      check(r, position);
  }
  Session& s_;
  StreamQueues queues_;
  Completions completions_;
  Helper helper_;
  uint64_t position_ = 0;
  bool leaving_ = false, malformed_ = false;
  int captures_ = 0;
  uint64_t launches_printed_ = 0;
  std::map<uint64_t, std::pair<uint32_t, uint64_t>>
      host_functions_;           // id to the stream it holds and its position
  std::vector<uint32_t> dirty_;  // streams with unmarked work
  bool legacy_dirty_ = false;    // a legacy stream is among them
};

}  // namespace busbar::server
