// Stream queues: order, dependencies, host functions and limits.
#include "server/stream_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "unit_tests/bulk_connection.h"
#include "unit_tests/test_session.h"

namespace busbar::server {
namespace {

class StreamQueuesTest : public testing::Test {
 protected:
  static StreamState stream(uint32_t id, bool blocking = false, bool legacy = false) {
    StreamState st;
    st.id = id;
    st.context = 1;
    st.blocking = blocking;
    st.legacy = legacy;
    return st;
  }
  // Parks a record with the payload `value`.
  uint64_t park(const StreamState& st, uint8_t value, Dependencies dependencies = {}) {
    return queues.park(st, record(st.id, value), dependencies);
  }
  uint64_t park_barrier(uint8_t value) {
    return queues.park_barrier(record(StreamQueues::kBarrier, value));
  }
  Record record(uint32_t queue, uint8_t value) {
    payload[0] = value;
    Record r;
    r.head = {sizeof r.head + sizeof payload, 0, 0, 1, queue};
    r.payload = payload;
    return r;
  }

  uint8_t payload[16] = {};
  TestSession t;
  StreamState first = stream(17), second = stream(18), legacy = stream(16, true, true);
  std::vector<int> ran;
  std::vector<int> refused;  // records that find no resource
  StreamQueues queues{t.bulk, [this](Record& r) {
                        if (std::count(refused.begin(), refused.end(), r.payload[0]))
                          return Outcome::waits;
                        ran.push_back(r.payload[0]);
                        return Outcome::done;
                      }};
};

TEST_F(StreamQueuesTest, BarrierDoesNotWaitForAWaitOfTheGpu) {
  queues.hold(first, StreamQueues::Hold::wait);
  park_barrier(1);
  park(first, 2);
  park_barrier(3);
  queues.run_ready();
  EXPECT_EQ(ran, std::vector<int>{1}) << "what is parked behind the wait comes before the second";
  queues.resume(first.id);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
}

TEST_F(StreamQueuesTest, RecordsOfAStreamRunInOrder) {
  for (uint8_t i = 1; i <= 3; ++i) EXPECT_NE(park(first, i), 0u);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(queues.idle());
  EXPECT_EQ(queues.parked_bytes(), 0u);
}

TEST_F(StreamQueuesTest, RecordWaitsForARecordOfAnotherStream) {
  queues.hold(second);
  uint64_t sequence = park(second, 2);
  park(first, 1, {second.id, sequence, 0, 0});
  queues.run_ready();
  EXPECT_TRUE(ran.empty());
  queues.resume(second.id);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{2, 1}));
}

TEST_F(StreamQueuesTest, OtherStreamsContinueWhileOneWaits) {
  park(first, 1, {0, 0, 77, 8});
  park(second, 2);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{2}));
  EXPECT_TRUE(queues.busy(first.id));
}

TEST_F(StreamQueuesTest, RecordWithoutAResourceHoldsBackItsOwnStreamOnly) {
  refused = {1};
  park(first, 1);
  park(first, 2);
  park(second, 3);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{3}));
  refused = {};
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{3, 1, 2}));
}

TEST_F(StreamQueuesTest, HostFunctionHoldsTheRecordsBehindIt) {
  queues.hold(first);
  EXPECT_FALSE(queues.idle());
  park(first, 1);
  queues.run_ready();
  EXPECT_TRUE(ran.empty());
  queues.resume(first.id);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1}));
}

TEST_F(StreamQueuesTest, BarrierWaitsForEverythingThatIsParked) {
  queues.hold(first);
  uint64_t sequence = park(first, 1);
  park(second, 2, {first.id, sequence, 0, 0});
  park_barrier(3);
  queues.run_ready();
  EXPECT_TRUE(ran.empty());
  queues.resume(first.id);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
}

TEST_F(StreamQueuesTest, BarrierWaitsForAHostFunctionWithNothingBehindIt) {
  queues.hold(first);
  park_barrier(1);
  queues.run_ready();
  EXPECT_TRUE(ran.empty());
  queues.resume(first.id);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1}));
}

TEST_F(StreamQueuesTest, BarrierDoesNotWaitForLaterRecords) {
  refused = {2};
  park_barrier(1);
  park(first, 2);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1}));
}

TEST_F(StreamQueuesTest, LegacyStreamWaitsForEarlierRecordsOfBlockingStreams) {
  StreamState blocking = stream(19, true);
  refused = {1, 2};
  park(first, 1);
  park(blocking, 2);
  EXPECT_FALSE(queues.legacy_order_holds(legacy));
  park(legacy, 3);
  queues.run_ready();
  EXPECT_TRUE(ran.empty());
  refused = {1};
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{2, 3})) << "a non-blocking stream holds back the legacy stream";
}

TEST_F(StreamQueuesTest, BlockingStreamWaitsForEarlierRecordsOfTheLegacyStream) {
  StreamState blocking = stream(19, true);
  queues.hold(legacy);
  EXPECT_FALSE(queues.legacy_order_holds(blocking));
  EXPECT_TRUE(queues.legacy_order_holds(first));
  park(blocking, 1);
  queues.run_ready();
  EXPECT_TRUE(ran.empty());
  queues.resume(legacy.id);
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1}));
}

// The function takes the place of its record, so a record of the legacy stream that was parked
// before the function started waits for its end.
TEST_F(StreamQueuesTest, ParkedHostFunctionKeepsItsPlaceInTheOrder) {
  StreamState blocking = stream(19, true);
  StreamQueues* q = nullptr;
  StreamQueues own{t.bulk, [&](Record& r) {
                     if (r.payload[0] == 1) q->hold(blocking);
                     ran.push_back(r.payload[0]);
                     return Outcome::done;
                   }};
  q = &own;
  own.park(blocking, record(blocking.id, 1), {});
  own.park(legacy, record(legacy.id, 2), {});
  own.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1}));
  own.resume(blocking.id);
  own.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST_F(StreamQueuesTest, ParkedPayloadIsACopy) {
  park(first, 1);
  payload[0] = 99;
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1}));
}

TEST_F(StreamQueuesTest, ParkFailsAtTheLimit) {
  uint64_t parked = 0;
  while (park(first, 1)) ++parked;
  EXPECT_GT(parked, 10'000u);
  EXPECT_LE(queues.parked_bytes(), wire::kMaxHeldBytes);
  EXPECT_EQ(park(second, 1), 0u);
}

TEST_F(StreamQueuesTest, RecordWaitsForTheBytesOfItsTransfer) {
  constexpr uint64_t kTransfer = 77, kHalf = 4096;
  BulkConnection connection;
  std::thread reader([&] { t.bulk.receive(1, std::move(connection.server)); });
  std::vector<uint8_t> half(kHalf, 5);
  park(first, 1, {0, 0, kTransfer, 2 * kHalf});
  connection.send(kTransfer, 0, half);
  EXPECT_TRUE(t.bulk.wait(kTransfer, kHalf, kPatienceMs));
  queues.run_ready();
  EXPECT_TRUE(ran.empty()) << "ran with half of its bytes";
  connection.send(kTransfer, kHalf, half);
  EXPECT_TRUE(t.bulk.wait(kTransfer, 2 * kHalf, kPatienceMs));
  queues.run_ready();
  EXPECT_EQ(ran, (std::vector<int>{1}));
  uint64_t bytes = 0;
  for (auto& chunk : t.bulk.collect(kTransfer)) bytes += chunk.size();
  EXPECT_EQ(bytes, 2 * kHalf);
  connection.client.close();
  reader.join();
}

}  // namespace
}  // namespace busbar::server
