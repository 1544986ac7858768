// The executor: malformed records end the session.
#include "server/executor.h"

#include <gtest/gtest.h>

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
  uint32_t create_context(uint32_t legacy) {
    send(wire::Op::create_context, 0, {9, 0, 1, 0, legacy});
    auto frames = t.frames();
    return frames.at(0).field<uint32_t>(8);
  }

  TestSession t;
  Executor executor{*t.session};
};

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

TEST_F(ExecutorTest, LegacyStreamWithoutIdIsRejected) {
  EXPECT_EQ(create_context(wire::kNoStream), (uint32_t)CUDA_ERROR_INVALID_VALUE);
}

// The client pauses and goes on; the records that end the wait are read meanwhile.
TEST_F(ExecutorTest, ClientPausesWhileManyRecordsWait) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_TRUE(send(wire::Op::host_function, kLegacy, {3, 0}));  // later records are parked
  executor.advance();
  t.frames();
  std::vector<uint32_t> pauses;
  auto read_pauses = [&] {
    for (auto& f : t.frames())
      if (f.kind == wire::Frame::pause) pauses.push_back(f.field<uint32_t>(0));
  };
  for (uint64_t bytes = 0; pauses.empty() && bytes < 2 * wire::kPauseHeldBytes;
       bytes += wire::kMaxRecordBytes) {
    ASSERT_TRUE(send_large(kLegacy));
    read_pauses();
  }
  EXPECT_EQ(pauses, (std::vector<uint32_t>{1}));
  EXPECT_TRUE(send(wire::Op::host_function_done, 0, {3, 0}));
  executor.advance();
  read_pauses();
  EXPECT_EQ(pauses, (std::vector<uint32_t>{1, 0}));
}

TEST_F(ExecutorTest, ClientThatDoesNotPauseLosesItsSession) {
  EXPECT_EQ(create_context(kLegacy), (uint32_t)CUDA_SUCCESS);
  EXPECT_TRUE(send(wire::Op::host_function, kLegacy, {3, 0}));
  uint64_t bytes = 0;
  while (bytes < 2 * wire::kMaxParkedBytes && send_large(kLegacy)) bytes += wire::kMaxRecordBytes;
  EXPECT_LE(bytes, wire::kMaxParkedBytes);
}

}  // namespace
}  // namespace busbar::server
