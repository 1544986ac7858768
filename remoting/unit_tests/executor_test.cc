// The executor: malformed records end the session.
#include "server/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "unit_tests/test_session.h"
#include "wire/encode.h"

namespace busbar::server {
namespace {

class ExecutorTest : public testing::Test {
 protected:
  static constexpr uint32_t kLegacy = 16;
  bool send(wire::Op op, uint32_t stream, std::initializer_list<uint32_t> words) {
    wire::Encoder<> e(op, 1, stream);
    for (uint32_t w : words) e.put(w);
    uint64_t used = 0;
    return executor.process(e.finish(), e.size(), used);
  }
  // A record of the largest size.
  bool send_large(uint32_t stream) {
    std::vector<uint8_t> record(wire::kMaxRecordBytes);
    wire::RecordHeader h{wire::kMaxRecordBytes, (uint16_t)wire::Op::completion_fence, 0, 1, stream};
    std::memcpy(record.data(), &h, sizeof h);
    uint64_t used = 0;
    return executor.process(record.data(), record.size(), used);
  }
  // Sends records until the next `pause` frame. Returns their bytes.
  uint64_t send_until_paused(uint32_t stream) {
    uint64_t bytes = 0;
    for (size_t before = pauses.size();
         pauses.size() == before && bytes < 2 * wire::kPauseAllBytes && send_large(stream);
         bytes += wire::kMaxRecordBytes)
      read_pauses();
    return bytes;
  }
  void read_pauses() {
    for (auto& f : t.frames())
      if (f.kind == wire::Frame::pause)
        pauses.emplace_back(f.field<uint32_t>(0), f.field<uint32_t>(4));
  }
  // Connects the session to a launcher with another limit, and returns the frame that follows.
  std::vector<ReceivedFrame> resize(uint64_t bytes) {
    TemporaryFolder folder;
    fuzz::OwnLauncher(folder.path(), {bytes}).connect(t.account);
    t.session->sizes_changed = true;
    executor.advance();
    return t.frames();
  }
  uint32_t create_context(uint32_t legacy) {
    send(wire::Op::create_context, 0, {9, 0, 1, 0, legacy});
    auto frames = t.frames();
    return frames.at(0).field<uint32_t>(8);
  }

  using Pauses = std::vector<std::pair<uint32_t, uint32_t>>;  // paused, stream
  Pauses pauses;
  TestSession t;
  Executor executor{*t.session};
};

std::vector<std::pair<void*, size_t>> g_registered;
CUresult note_registration(void* at, size_t bytes, unsigned) {
  g_registered.emplace_back(at, bytes);
  return CUDA_SUCCESS;
}

// A copy from or to other memory would wait in the call, and the executor with it.
TEST_F(ExecutorTest, ChunksAreRegisteredWithTheFirstContext) {
  g_registered.clear();
  t.cu.cuMemHostRegister = note_registration;
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  ASSERT_EQ(g_registered.size(), 1u);
  auto* begin = (uint8_t*)g_registered[0].first;
  for (uint32_t i = 0; i < transport::kSharedChunks; ++i)
    for (bool to_node : {true, false}) {
      auto offset = (uint64_t)(t.link->shared()->chunk(to_node, i) - begin);
      EXPECT_LE(offset + transport::kSharedChunkBytes, g_registered[0].second);
    }
}

TEST_F(ExecutorTest, MalformedRecordEndsTheSession) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_FALSE(send(wire::Op::launch, kLegacy, {99, 1, 1, 1}));
}

TEST_F(ExecutorTest, RecordOfAnUnknownStreamEndsTheSession) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_FALSE(send(wire::Op::completion_fence, 99, {}));
}

TEST_F(ExecutorTest, ParkedRecordOfAnUnknownEventCreatesNone) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_TRUE(send(wire::Op::host_function, kLegacy, {3, 0}));  // later records are parked
  EXPECT_TRUE(send(wire::Op::record_event, kLegacy, {99}));
  EXPECT_TRUE(t.session->events.empty());
}

TEST_F(ExecutorTest, ContextIsMadeWhenItsChargeIsAnswered) {
  t.session->charged_contexts = 0;
  send(wire::Op::create_context, 0, {9, 0, 1, 0, kLegacy});
  EXPECT_FALSE(t.session->context(1)) << "the executor must not wait for the launcher";
  while (!t.session->context(1)) executor.advance();
  EXPECT_EQ(t.frames().at(0).field<uint32_t>(8), (uint32_t)CUDA_SUCCESS);
}

TEST_F(ExecutorTest, ClientIsToldTheSizeOfItsPartitionWhenItChanges) {
  t.session->devices[0].known_bytes = TestSession::kLimitBytes;
  EXPECT_TRUE(resize(TestSession::kLimitBytes).empty()) << "the client knows it";
  auto grown = resize(2 * TestSession::kLimitBytes);
  ASSERT_EQ(grown.size(), 1u);
  EXPECT_EQ(grown[0].kind, wire::Frame::partition_size);
  EXPECT_EQ(grown[0].field<uint32_t>(0), 0u);
  EXPECT_EQ(grown[0].field<uint32_t>(4), 0u);
  EXPECT_EQ(grown[0].field<uint64_t>(8), 2 * TestSession::kLimitBytes);
  EXPECT_FALSE(t.session->exceeds_partition);
}

TEST_F(ExecutorTest, ClientIsToldThatMoreIsChargedThanItsPartitionHas) {
  t.session->devices[0].known_bytes = TestSession::kLimitBytes;
  EXPECT_TRUE(t.account.reserve(0, 4096));
  auto shrunk = resize(1024);
  ASSERT_EQ(shrunk.size(), 2u);
  EXPECT_EQ(shrunk[0].field<uint32_t>(4), 1u);
  EXPECT_EQ(shrunk[1].kind, wire::Frame::memory_wanted);
  EXPECT_TRUE(t.session->exceeds_partition);
  t.account.release(0, 4096);
  t.session->sizes_changed = true;
  executor.advance();
  EXPECT_EQ(t.frames().at(0).field<uint32_t>(4), 0u);
  EXPECT_FALSE(t.session->exceeds_partition);
}

// The return of a lease waits for nothing, so it may come during work and captures.
TEST_F(ExecutorTest, ClientWithWorkIsToldOnceThatMemoryIsWanted) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_TRUE(send(wire::Op::host_function, kLegacy, {3, 0}));
  EXPECT_TRUE(send(wire::Op::completion_fence, kLegacy, {}));
  t.session->active_captures = 1;
  t.session->memory_wanted = true;
  for (int i = 0; i < 2; ++i) executor.advance();
  auto frames = t.frames();
  EXPECT_EQ(std::ranges::count(frames, wire::Frame::memory_wanted, &ReceivedFrame::kind), 1);
}

// A helper thread wakes the executor only if it sees the pause.
TEST_F(ExecutorTest, WorkThatEndsBeforeThePauseBeginsEndsIt) {
  t.session->posted_bytes = wire::kPauseAllBytes + 1;
  executor.advance();
  t.session->posted_bytes = 0;
  auto begin = std::chrono::steady_clock::now();
  std::vector<uint8_t> bytes;
  EXPECT_TRUE(t.link->receive(bytes, 1024, 10'000));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  executor.advance();
  read_pauses();
  EXPECT_EQ(pauses, (Pauses{{1, wire::kAllStreams}, {0, wire::kAllStreams}}));
}

TEST_F(ExecutorTest, LegacyStreamWithoutIdIsRejected) {
  EXPECT_EQ(create_context(wire::kNoStream), (uint32_t)CUDA_ERROR_INVALID_VALUE);
}

int g_recorded_events = 0;

// The client begins a capture while another thread copies.
TEST_F(ExecutorTest, CopyToACapturedStreamRecordsNoEvent) {
  constexpr uint32_t kOther = 20;
  g_recorded_events = 0;
  t.cu.cuEventRecord = [](CUevent, CUstream) {
    ++g_recorded_events;
    return CUDA_SUCCESS;
  };
  t.staging(64);  // lets the pool grow
  create_context(kLegacy);
  send(wire::Op::create_stream, 0, {kOther, CU_STREAM_NON_BLOCKING, 0});
  EXPECT_TRUE(send(wire::Op::begin_capture, kOther, {9, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(t.session->stream(kOther)->capturing);
  t.frames();
  EXPECT_TRUE(send(wire::Op::copy_in, kOther, {0x10000, 0, 8, 0, 0, 0, 1, 2}));
  executor.advance();
  EXPECT_EQ(g_recorded_events, 0);
  EXPECT_EQ(t.completed_positions().size(), 1u);
}

struct GraphCall {
  char name;  // l: launch, c: change; of an event, r: record, w: wait
  uint64_t exec;
  bool operator==(const GraphCall&) const = default;
};
std::vector<GraphCall> g_graph_calls;

class GraphOrderTest : public ExecutorTest {
 protected:
  static constexpr uint32_t kOther = 20, kExec = 0x77, kOtherExec = 0x78, kNode = 0x88;
  static constexpr auto kSetEnabled = (wire::Op)0x005a;
  GraphOrderTest() {
    g_graph_calls.clear();
    t.cu.cuGraphLaunch = [](CUgraphExec e, CUstream) {
      g_graph_calls.push_back({'l', (uint64_t)e});
      return CUDA_SUCCESS;
    };
    t.cu.cuGraphNodeSetEnabled = [](CUgraphExec e, CUgraphNode, unsigned) {
      g_graph_calls.push_back({'c', (uint64_t)e});
      return CUDA_SUCCESS;
    };
    create_context(kLegacy);
    send(wire::Op::create_stream, 0, {kOther, CU_STREAM_NON_BLOCKING, 0});
    for (uint64_t exec : {kExec, kOtherExec}) t.session->objects.add(ObjectKind::exec, exec);
    t.session->objects.add(ObjectKind::node, kNode);
    send(wire::Op::host_function, kLegacy, {3, 0});  // later records of its stream are parked
    executor.advance();
  }
  void launch(uint32_t stream, uint32_t exec) {
    EXPECT_TRUE(send(wire::Op::launch_graph, stream, {exec, 0, 0, 0}));
  }
  void change(uint32_t exec) { EXPECT_TRUE(send(kSetEnabled, 0, {5, 0, exec, 0, kNode, 0, 1})); }
  void end_host_function() {
    EXPECT_TRUE(send(wire::Op::host_function_done, 0, {3, 0}));
    executor.advance();
  }
  using Calls = std::vector<GraphCall>;
};

TEST_F(GraphOrderTest, ChangeFollowsParkedLaunchesOfItsGraph) {
  launch(kLegacy, kExec);
  change(kExec);
  change(kOtherExec);
  executor.advance();
  EXPECT_EQ(g_graph_calls, (Calls{{'c', kOtherExec}}));
  end_host_function();
  EXPECT_EQ(g_graph_calls, (Calls{{'c', kOtherExec}, {'l', kExec}, {'c', kExec}}));
}

TEST_F(GraphOrderTest, LaunchFollowsParkedLaunchOfItsGraphInAnotherStream) {
  launch(kLegacy, kExec);
  launch(kOther, kExec);
  executor.advance();
  EXPECT_EQ(g_graph_calls, Calls{});
  end_host_function();
  change(kExec);
  EXPECT_EQ(g_graph_calls, (Calls{{'l', kExec}, {'l', kExec}, {'c', kExec}}));
}

// A capture ends at once when the client says so, and takes what has run until then.
TEST_F(GraphOrderTest, CapturedRecordWaitsForNoParkedOne) {
  constexpr uint32_t kBlocking = 21;
  send(wire::Op::create_stream, 0, {kBlocking, 0, 0});
  EXPECT_TRUE(send(wire::Op::begin_capture, kBlocking, {9, 0, 0, 0, 0, 0}));
  launch(kLegacy, kExec);
  launch(kBlocking, kExec);
  EXPECT_EQ(g_graph_calls, (Calls{{'l', kExec}}));
  end_host_function();
}

TEST_F(GraphOrderTest, ChangeRunsAtOnceWithoutParkedLaunch) {
  launch(kOther, kExec);
  change(kExec);
  EXPECT_EQ(g_graph_calls, (Calls{{'l', kExec}, {'c', kExec}}));
  end_host_function();
}

CUevent g_event_of_node;

// The executable graph has one node, which names an event.
class GraphEventTest : public GraphOrderTest {
 protected:
  static constexpr uint32_t kEvent = 40;
  GraphEventTest() {
    t.cu.cuEventCreate = [](CUevent* e, unsigned) {
      static uint64_t created = 0;
      *e = (CUevent)++created;
      return CUDA_SUCCESS;
    };
    t.cu.cuGraphEventRecordNodeGetEvent =
        t.cu.cuGraphEventWaitNodeGetEvent = [](CUgraphNode, CUevent* e) {
          *e = g_event_of_node;
          return CUDA_SUCCESS;
        };
    t.cu.cuEventRecord = [](CUevent e, CUstream) {
      if (e == g_event_of_node) g_graph_calls.push_back({'r', 0});
      return CUDA_SUCCESS;
    };
    t.cu.cuStreamWaitEvent = [](CUstream, CUevent e, unsigned) {
      if (e == g_event_of_node) g_graph_calls.push_back({'w', 0});
      return CUDA_SUCCESS;
    };
    send(wire::Op::create_event, 0, {kEvent, 0});
    g_event_of_node = t.session->event_handle(kEvent);
  }
  void note(CUgraphNodeType type) {
    auto graph = (CUgraph)(1ul << type);  // see fuzz/stub_driver.h
    t.session->graph_events.note(t.cu, (CUgraphExec)(uint64_t)kExec, graph);
  }
};

TEST_F(GraphEventTest, WaitFollowsParkedLaunchThatRecordsItsEvent) {
  note(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  launch(kLegacy, kExec);
  EXPECT_TRUE(send(wire::Op::wait_event, kOther, {kEvent}));
  executor.advance();
  EXPECT_EQ(g_graph_calls, Calls{});
  end_host_function();
  EXPECT_EQ(g_graph_calls, (Calls{{'l', kExec}, {'w', 0}}));
}

TEST_F(GraphEventTest, LaunchFollowsParkedRecordOfAnEventForWhichItWaits) {
  note(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  EXPECT_TRUE(send(wire::Op::record_event, kLegacy, {kEvent}));
  launch(kOther, kExec);
  executor.advance();
  EXPECT_EQ(g_graph_calls, Calls{});
  end_host_function();
  EXPECT_EQ(g_graph_calls, (Calls{{'r', 0}, {'l', kExec}}));
}

TEST_F(GraphEventTest, LaunchWaitsForNoRecordOfAnotherEvent) {
  note(CU_GRAPH_NODE_TYPE_EMPTY);
  EXPECT_TRUE(send(wire::Op::record_event, kLegacy, {kEvent}));
  launch(kOther, kExec);
  EXPECT_EQ(g_graph_calls, (Calls{{'l', kExec}}));
  end_host_function();
}

// Only the stream is paused: records of other streams may end the wait.
TEST_F(ExecutorTest, StreamPausesWhileManyOfItsRecordsWait) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_TRUE(send(wire::Op::host_function, kLegacy, {3, 0}));  // later records are parked
  executor.advance();
  uint64_t sent = send_until_paused(kLegacy);
  EXPECT_EQ(pauses, (Pauses{{1, kLegacy}}));
  EXPECT_LE(sent, wire::kPauseStreamBytes + wire::kMaxRecordBytes);
  EXPECT_TRUE(send(wire::Op::host_function_done, 0, {3, 0}));
  executor.advance();
  read_pauses();
  EXPECT_EQ(pauses, (Pauses{{1, kLegacy}, {0, kLegacy}}));
}

TEST_F(ExecutorTest, AllStreamsPauseWhileTooManyRecordsWait) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_TRUE(send(wire::Op::host_function, kLegacy, {3, 0}));
  executor.advance();
  send_until_paused(kLegacy);
  send_until_paused(kLegacy);
  EXPECT_EQ(pauses, (Pauses{{1, kLegacy}, {1, wire::kAllStreams}}));
  EXPECT_TRUE(send(wire::Op::host_function_done, 0, {3, 0}));
  executor.advance();
  read_pauses();
  EXPECT_EQ(pauses,
            (Pauses{{1, kLegacy}, {1, wire::kAllStreams}, {0, kLegacy}, {0, wire::kAllStreams}}));
}

TEST_F(ExecutorTest, ClientThatDoesNotPauseLosesItsSession) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_TRUE(send(wire::Op::host_function, kLegacy, {3, 0}));
  uint64_t bytes = 0;
  while (bytes < 2 * wire::kMaxHeldBytes && send_large(kLegacy)) bytes += wire::kMaxRecordBytes;
  EXPECT_LE(bytes, wire::kMaxHeldBytes);
}

uint32_t g_fills = 0;
CUresult count_fill(CUdeviceptr, unsigned char, size_t, CUstream) {
  ++g_fills;
  return CUDA_SUCCESS;
}

// A session that has the GPU for itself, and a GPU that ends nothing before the test lets it.
class ExecutorBacklogTest : public ExecutorTest {
 protected:
  ExecutorBacklogTest() {
    t.session->turns = &turns;
    t.cu.cuMemsetD8Async = count_fill;
    fuzz::g_events_pending = true;
    g_fills = 0;
    create_context(kLegacy);
    for (uint32_t i = 0; i < kFills; ++i) fill();
    executor.advance();
  }
  ~ExecutorBacklogTest() override { fuzz::g_events_pending = false; }
  void fill() {
    wire::Encoder<> e((wire::Op)kFill, 1, kLegacy);
    e.put<uint64_t>(4096).put<uint8_t>(0).put<uint64_t>(4096);
    EXPECT_TRUE(process(e));
  }
  bool process(wire::Encoder<>& e) {
    uint64_t used = 0;
    return executor.process(e.finish(), e.size(), used);
  }
  // spec/cuda_driver.spec: cuMemsetD8Async and cuGraphExecMemsetNodeSetParams
  static constexpr uint16_t kFill = 0x0001, kChange = 0x0048;
  static constexpr uint32_t kFills = 10;
  Turns turns{1};
};

TEST_F(ExecutorBacklogTest, WorkOverItWaitsForTheEndOfEarlierWork) {
  EXPECT_EQ(g_fills, Backlog::kFirst);
  fuzz::g_events_pending = false;
  executor.advance();
  EXPECT_EQ(g_fills, kFills);
}

// The work may wait for a record that the program submits behind the barrier.
TEST_F(ExecutorBacklogTest, BarrierDoesNotWaitForTheEndOfWork) {
  EXPECT_TRUE(send(wire::Op::destroy_event, 0, {99}));
  executor.advance();
  EXPECT_EQ(g_fills, kFills);
}

TEST_F(ExecutorBacklogTest, ChangeOfAGraphDoesNotWaitForTheEndOfWork) {
  wire::Encoder<> launch(wire::Op::launch_graph, 1, kLegacy);
  launch.put<uint64_t>(1);
  EXPECT_TRUE(process(launch));
  EXPECT_EQ(g_fills, Backlog::kFirst);
  wire::Encoder<> change((wire::Op)kChange, 1, 0);
  change.put<uint64_t>(7).put<uint64_t>(1).put<uint64_t>(1);
  EXPECT_TRUE(process(change));
  executor.advance();
  EXPECT_EQ(g_fills, kFills);
}

TEST_F(ExecutorBacklogTest, SessionWhoseWorkMayWaitForALaterRecordHasNone) {
  t.session->work_waits = true;
  executor.advance();
  EXPECT_EQ(g_fills, kFills);
}

std::atomic<uint32_t> g_looks{0};  // at events, before a thread waits for one in the driver
std::atomic<bool> g_waits_in_driver{false};
CUresult count_look(CUevent) {
  if (!g_waits_in_driver) ++g_looks;
  return fuzz::g_events_pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult wait_in_driver(CUevent) {
  g_waits_in_driver = true;
  while (fuzz::g_events_pending) std::this_thread::yield();
  return CUDA_SUCCESS;
}

// On a small machine it would take the processor from the software GPU.
TEST_F(ExecutorBacklogTest, ExecutorSleepsWhileItsWorkOfATurnRuns) {
  static const std::atomic<uint32_t> turn{control::turn_word(1, control::TurnState::turn)};
  constexpr uint32_t kLooksOfAWait = 2000;  // it looks once a millisecond
  t.cu.cuEventQuery = count_look;
  t.cu.cuEventSynchronize = wait_in_driver;
  turns.gate(0)->use(&turn);
  executor.advance();
  g_looks = 0;
  g_waits_in_driver = false;
  std::thread runner([&] { executor.run(); });
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!g_waits_in_driver && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(g_waits_in_driver);
  EXPECT_LT(g_looks, kLooksOfAWait);
  fuzz::g_events_pending = false;
  wire::Encoder<> leave(wire::Op::end_session, 0, 0);
  const uint8_t* record = leave.finish();
  t.client->records().submit(record, leave.size());
  runner.join();
}

}  // namespace
}  // namespace busbar::server
