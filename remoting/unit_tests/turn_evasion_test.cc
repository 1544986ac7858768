// Clients that try to use the GPU without turns, or hide their work from the end of one.
#include <gtest/gtest.h>

#include <thread>

#include "server/executor.h"
#include "unit_tests/test_session.h"
#include "wire/encode.h"

namespace busbar::server {
namespace {

constexpr uint32_t kInFlight = 4;  // records that a turn permits at its beginning
constexpr uint32_t kTooMany = 20;

bool g_captured = false;
uint32_t g_fills = 0, g_graphs = 0;

// A session in a turn, on a GPU whose work never ends.
class TurnEvasionTest : public testing::Test {
 protected:
  static constexpr uint32_t kLegacy = 16, kFirst = 20, kSecond = 21, kEvent = 5;
  static constexpr auto kFill = (wire::Op)0x0003;
  static constexpr uint32_t kBadValue = 7;
  static constexpr uint64_t kExec = 0x77;

  TurnEvasionTest() {
    g_captured = false;
    g_fills = g_graphs = 0;
    stub_driver_calls();
    turns.gate(0)->use(&word);
    t.session->turns = &turns;
    t.staging(64);  // lets the pool grow, once
    t.cu.cuMemHostAlloc = [](void** p, size_t bytes, unsigned) {
      *p = bytes < PinnedPool::kSlabBytes ? std::malloc(bytes) : nullptr;
      return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    };
    send(1, wire::Op::create_context, 0, {9, 0, 1, 0, kLegacy});
    for (uint32_t id : {kFirst, kSecond})
      EXPECT_TRUE(send(1, wire::Op::create_stream, 0, {id, CU_STREAM_NON_BLOCKING, 0}));
    EXPECT_TRUE(send(1, wire::Op::create_event, 0, {kEvent, 0}));
    fuzz::g_events_pending = true;
  }
  ~TurnEvasionTest() override { fuzz::g_events_pending = false; }

  void stub_driver_calls() {
    t.cu.cuMemsetD32Async = [](CUdeviceptr, unsigned value, size_t, CUstream) {
      if (value == kBadValue) return CUDA_ERROR_INVALID_VALUE;
      g_fills += !g_captured;
      return CUDA_SUCCESS;
    };
    t.cu.cuGraphLaunch = [](CUgraphExec, CUstream) {
      ++g_graphs;
      return CUDA_SUCCESS;
    };
    t.cu.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode) {
      g_captured = true;
      return CUDA_SUCCESS;
    };
    t.cu.cuStreamEndCapture = [](CUstream, CUgraph* graph) {
      *graph = nullptr;
      g_captured = false;
      return CUDA_SUCCESS;
    };
    t.cu.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
      *status = g_captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
      return CUDA_SUCCESS;
    };
    t.cu.cuStreamDestroy = [](CUstream) {
      g_captured = false;
      return CUDA_SUCCESS;
    };
  }

  bool send(uint32_t context, wire::Op op, uint32_t stream, std::initializer_list<uint32_t> words) {
    wire::Encoder<> e(op, context, stream);
    for (uint32_t w : words) e.put(w);
    uint64_t used = 0;
    return executor.process(e.finish(), e.size(), used);
  }
  void fill(uint32_t stream, uint32_t value = 0) {
    EXPECT_TRUE(send(1, kFill, stream, {0x10000, 0, value, 1, 0}));
  }
  void copy(uint32_t stream) {
    EXPECT_TRUE(send(1, wire::Op::copy_in, stream, {0x10000, 0, 8, 0, 0, 0, 1, 2}));
  }
  void begin_capture(uint32_t stream) {
    EXPECT_TRUE(send(1, wire::Op::begin_capture, stream, {9, 0, 0, 0, 0, 0}));
  }
  void end_capture(uint32_t stream) {
    EXPECT_TRUE(send(1, wire::Op::end_capture, stream, {9, 0, 0, 0}));
  }
  void join_capture(uint32_t origin, uint32_t other) {
    EXPECT_TRUE(send(1, wire::Op::record_event, origin, {kEvent}));
    EXPECT_TRUE(send(1, wire::Op::wait_event, other, {kEvent}));
  }
  bool has_unfenced_work() const { return turns.gate(0)->has_unfenced(); }
  bool has_counted_work() const { return turns.gate(0)->has_fenced(); }

  TestSession t;
  std::atomic<uint32_t> word{control::turn_word(1, control::TurnState::turn)};
  mutable Turns turns{1};
  Executor executor{*t.session};
};

TEST_F(TurnEvasionTest, WorkOfATurnIsLimited) {
  for (uint32_t i = 0; i < kTooMany; ++i) fill(kFirst);
  executor.advance();
  EXPECT_GE(g_fills, 1u);
  EXPECT_LE(g_fills, kInFlight) << "a fence counts, too";
}

TEST_F(TurnEvasionTest, StreamOfAnUnknownContextIsRejected) {
  EXPECT_FALSE(send(77, wire::Op::create_stream, 0, {40, CU_STREAM_NON_BLOCKING, 0}));
  EXPECT_FALSE(t.session->stream(40));
}

TEST_F(TurnEvasionTest, CaptureDoesNotHideEarlierWork) {
  for (uint32_t i = 0; i < kTooMany; ++i) {
    fill(kFirst);
    begin_capture(kFirst);
    copy(kFirst);
    end_capture(kFirst);
    executor.advance();
  }
  EXPECT_LE(g_fills, kInFlight);
}

TEST_F(TurnEvasionTest, CaptureDoesNotHideEarlierWorkOfAStreamThatJoins) {
  for (uint32_t i = 0; i < kTooMany; ++i) {
    fill(kSecond);
    begin_capture(kFirst);
    join_capture(kFirst, kSecond);
    copy(kSecond);
    end_capture(kFirst);
    executor.advance();
  }
  EXPECT_LE(g_fills, kInFlight);
}

TEST_F(TurnEvasionTest, CaptureEndsWithTheStreamThatBeganIt) {
  begin_capture(kFirst);
  join_capture(kFirst, kSecond);
  ASSERT_TRUE(t.session->stream(kSecond)->capturing);
  EXPECT_TRUE(send(1, wire::Op::destroy_stream, 0, {kFirst}));
  for (uint32_t i = 0; i < kTooMany; ++i) fill(kSecond);
  executor.advance();
  EXPECT_LE(g_fills, kInFlight);
}

// A client may end captures that it has not begun.
TEST_F(TurnEvasionTest, StreamJoinsACaptureAfterFalseEnds) {
  begin_capture(kFirst);
  t.cu.cuStreamEndCapture = [](CUstream, CUgraph* graph) {
    *graph = nullptr;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  };
  end_capture(kSecond);
  join_capture(kFirst, kSecond);
  EXPECT_TRUE(t.session->stream(kSecond)->capturing);
}

// Another thread clears it.
TEST_F(TurnEvasionTest, NewMemoryIsClearedInATurn) {
  static std::atomic<uint32_t> cleared;
  cleared = 0;
  t.cu.fresh_memory_is_zero = false;
  t.cu.cuMemsetD8Async = [](CUdeviceptr, unsigned char, size_t, CUstream) {
    ++cleared;
    return CUDA_SUCCESS;
  };
  word = control::turn_word(1, control::TurnState::closed);
  EXPECT_TRUE(send(0, wire::Op::create_memory, 0, {9, 0, 0, 0, wire::kGranularity, 0}));
  auto look = [&] {
    executor.advance();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  for (int i = 0; i < 20; ++i) look();
  EXPECT_EQ(cleared, 0u);
  word = control::turn_word(2, control::TurnState::turn);
  for (int i = 0; i < 60'000 && !cleared; ++i) look();
  EXPECT_EQ(cleared, 1u);
}

TEST_F(TurnEvasionTest, ErrorDoesNotEndTheWorkBeforeIt) {
  fill(kFirst, kBadValue);
  for (uint32_t i = 0; i < kTooMany; ++i) {
    fill(kFirst);
    executor.advance();
  }
  EXPECT_LE(g_fills, kInFlight);
  EXPECT_TRUE(has_counted_work());
  fuzz::g_events_pending = false;
  while (g_fills < kTooMany) executor.advance();
}

TEST_F(TurnEvasionTest, WorkWithoutAnEventCountsAsUnfinished) {
  t.cu.cuEventCreate = [](CUevent*, unsigned) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  for (uint32_t i = 0; i < kTooMany; ++i) {
    fill(kFirst);
    executor.advance();
  }
  EXPECT_LE(g_fills, kInFlight);
}

TEST_F(TurnEvasionTest, EventThatCannotBeRecordedEndsNoWork) {
  t.cu.cuEventRecord = [](CUevent, CUstream) {
    return CUDA_ERROR_INVALID_HANDLE;
  };
  fuzz::g_events_pending = false;
  for (uint32_t i = 0; i < kTooMany; ++i) {
    fill(kFirst);
    executor.advance();
  }
  EXPECT_LE(g_fills, kInFlight);
}

// Work without a fence would keep the turn from ending, also after the end of its stream.
TEST_F(TurnEvasionTest, FaultEndsWorkWhoseEventCannotBeRecorded) {
  t.cu.cuEventRecord = [](CUevent, CUstream) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  fill(kFirst);
  EXPECT_EQ(g_fills, 1u);
  EXPECT_TRUE(send(1, wire::Op::destroy_stream, 0, {kFirst}));
  EXPECT_FALSE(has_unfenced_work());
}

TEST_F(TurnEvasionTest, FaultEndsWorkWhoseEventCannotBeCreated) {
  t.cu.cuEventCreate = [](CUevent*, unsigned) {
    return CUDA_ERROR_LAUNCH_FAILED;
  };
  fill(kLegacy);
  EXPECT_EQ(g_fills, 1u);
  EXPECT_TRUE(send(1, wire::Op::destroy_context, 0, {}));
  EXPECT_FALSE(has_unfenced_work());
}

// The graph has been launched, and its outputs wait for staging memory.
TEST_F(TurnEvasionTest, GraphWhoseOutputsWaitCountsAsWork) {
  constexpr uint32_t kBuffer = 3;
  PinnedBuffer all = t.staging(PinnedPool::kSlabBytes);
  t.session->objects.add(ObjectKind::exec, kExec);
  EXPECT_EQ(t.session->graph_buffers.allocate(kBuffer, 8), CUDA_SUCCESS);
  EXPECT_TRUE(send(1, wire::Op::launch_graph, kFirst, {kExec, 0, 1, 0, kBuffer, 0, 9, 0}));
  EXPECT_EQ(g_graphs, 1u);
  EXPECT_TRUE(has_counted_work());
}

}  // namespace
}  // namespace busbar::server
