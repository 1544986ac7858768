// Ring of records: order, wrap-around, backpressure and untrusted content.
#include "transport/ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <latch>
#include <thread>

#include "wire/decode.h"

namespace busbar::transport {
namespace {

constexpr uint64_t kRingBytes = 64 << 10;
constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kPause = std::chrono::milliseconds(50);

// A record of `bytes` bytes that carries `value` in every payload byte.
std::vector<uint8_t> record(uint32_t bytes, uint8_t value, uint32_t context = 1) {
  std::vector<uint8_t> r(bytes, value);
  wire::RecordHeader h{bytes, 0x1019, 0, context, 17};
  std::memcpy(r.data(), &h, sizeof h);
  return r;
}

uint64_t submit(Ring& ring, const std::vector<uint8_t>& r) {
  return ring.submit(r.data(), (uint32_t)r.size());
}

TEST(RingTest, PositionIsTheEndOfTheRecordInTheStream) {
  Ring ring(kRingBytes);
  EXPECT_EQ(submit(ring, record(32, 1)), 32u);
  EXPECT_EQ(submit(ring, record(64, 2)), 96u);
  EXPECT_EQ(ring.submitted(), 96u);
}

TEST(RingTest, RecordsThatWrapAroundAreReadWhole) {
  Ring ring(kRingBytes);
  constexpr uint32_t kBytes = 4096 + 16;           // does not divide the capacity
  constexpr size_t kUnread = kRingBytes / kBytes;  // the ring is full
  std::deque<std::vector<uint8_t>> unread;
  for (int i = 0; i < 100; ++i) {
    unread.push_back(record(kBytes, (uint8_t)i));
    ASSERT_EQ(submit(ring, unread.back()), (uint64_t)(i + 1) * kBytes);
    if (unread.size() < kUnread) continue;
    uint64_t bytes = 0;
    const uint8_t* p = ring.peek(kBytes, bytes);
    ASSERT_EQ(bytes, kBytes);
    ASSERT_EQ(std::memcmp(p, unread.front().data(), kBytes), 0) << "record " << i;
    ring.consume(bytes);
    unread.pop_front();
  }
}

TEST(RingTest, RingIsEmptyAfterAWholeRoundIsConsumed) {
  Ring ring(kRingBytes);
  for (uint64_t i = 0; i < kRingBytes / 4096; ++i) submit(ring, record(4096, 1));
  EXPECT_FALSE(ring.empty());
  ring.consume(kRingBytes);
  EXPECT_TRUE(ring.empty());
}

TEST(RingTest, PeekReturnsAtLeastOneRecordAndNoPartOfAnother) {
  Ring ring(kRingBytes);
  submit(ring, record(4096, 1));
  submit(ring, record(4096, 2));
  uint64_t bytes = 0;
  ring.peek(16, bytes);
  EXPECT_EQ(bytes, 4096u);
  ring.peek(8191, bytes);
  EXPECT_EQ(bytes, 4096u);
  ring.peek(8192, bytes);
  EXPECT_EQ(bytes, 8192u);
}

TEST(RingTest, SubmitBlocksWhileTheRingIsFull) {
  Ring ring(kRingBytes);
  for (uint64_t i = 0; i < kRingBytes / 4096; ++i) submit(ring, record(4096, 1));
  std::atomic<uint64_t> position{0};
  std::thread producer([&] { position = submit(ring, record(4096, 2)); });
  std::this_thread::sleep_for(kPause);
  EXPECT_EQ(position, 0u) << "a record overwrote unread data";
  ring.consume(4096);
  producer.join();
  EXPECT_EQ(position, kRingBytes + 4096);
}

TEST(RingTest, CloseReleasesABlockedProducer) {
  Ring ring(kRingBytes);
  for (uint64_t i = 0; i < kRingBytes / 4096; ++i) submit(ring, record(4096, 1));
  uint64_t position = 1;
  std::thread producer([&] { position = submit(ring, record(4096, 2)); });
  std::this_thread::sleep_for(kPause);
  ring.close();
  producer.join();
  EXPECT_EQ(position, 0u);
  EXPECT_EQ(submit(ring, record(32, 3)), 0u);
}

TEST(RingTest, RecordsOfConcurrentProducersKeepTheirOrder) {
  constexpr uint32_t kProducers = 4, kRecords = 50'000;
  Ring ring(kRingBytes);
  std::latch start(kProducers);
  std::vector<std::thread> producers;
  for (uint32_t p = 0; p < kProducers; ++p)
    producers.emplace_back([&, p] {
      auto r = record(32, 0, p);
      start.arrive_and_wait();
      for (uint32_t i = 0; i < kRecords; ++i) {
        std::memcpy(r.data() + sizeof(wire::RecordHeader), &i, sizeof i);
        submit(ring, r);
      }
    });
  uint32_t next[kProducers] = {}, total = 0;
  bool in_order = true;
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (in_order && total < kProducers * kRecords && std::chrono::steady_clock::now() < end) {
    uint64_t bytes = 0;
    const uint8_t* p = ring.peek(4096, bytes);
    for (uint64_t at = 0; at < bytes; at += 32, ++total) {
      wire::RecordHeader h;
      uint32_t i;
      std::memcpy(&h, p + at, sizeof h);
      std::memcpy(&i, p + at + sizeof h, sizeof i);
      in_order = in_order && i == next[h.context]++;
    }
    if (bytes) ring.consume(bytes);
  }
  ring.close();  // releases the producers after a failure
  for (auto& t : producers) t.join();
  EXPECT_TRUE(in_order);
  EXPECT_EQ(total, kProducers * kRecords) << "a record was lost";
}

TEST(RingTest, ParkFailsWhileARecordWaits) {
  Ring ring(kRingBytes);
  EXPECT_TRUE(ring.park());
  ring.unpark();
  submit(ring, record(32, 1));
  EXPECT_FALSE(ring.park());
}

// A ring in memory that a hostile client may write.
class SharedRingTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 2 * wire::kMaxRecordBytes;
  SharedRingTest() : memory_(map()), ring_(&head_, memory_, kBytes) {}
  ~SharedRingTest() override { munmap(memory_, 2 * kBytes); }
  static uint8_t* map() {
    int fd = memfd_create("ring-test", 0);
    EXPECT_EQ(ftruncate(fd, kBytes), 0);
    uint8_t* p = map_twice(fd, 0, kBytes, false);
    close(fd);
    return p;
  }
  // Writes a length into the first word at the head, as a client could.
  bool read_with_length(uint32_t bytes) {
    wire::RecordHeader h{bytes, 0x1019, 0, 1, 17};
    std::memcpy(memory_, &h, sizeof h);
    return ring_.read_records(out_, 4096);
  }
  RingHead head_;
  uint8_t* memory_;
  Ring ring_;
  std::vector<uint8_t> out_;
};

TEST_F(SharedRingTest, WholeRecordsAreCopiedAndConsumed) {
  submit(ring_, record(64, 5));
  submit(ring_, record(32, 6));
  ASSERT_TRUE(ring_.read_records(out_, 4096));
  ASSERT_EQ(out_.size(), 96u);
  EXPECT_EQ(out_[63], 5);
  EXPECT_EQ(out_[95], 6);
  EXPECT_TRUE(ring_.empty());
}

TEST_F(SharedRingTest, TruncatedRecordIsRejected) {
  EXPECT_FALSE(read_with_length(0));
  EXPECT_FALSE(read_with_length(8));
}

TEST_F(SharedRingTest, OversizedRecordIsRejected) {
  EXPECT_FALSE(read_with_length(wire::kMaxRecordBytes + 16));
  EXPECT_FALSE(read_with_length(0xfffffff0));
}

TEST_F(SharedRingTest, UnalignedRecordIsRejected) {
  EXPECT_FALSE(read_with_length(40));
}

TEST_F(SharedRingTest, UnalignedHeadIsRejected) {
  head_.head = 8;
  EXPECT_FALSE(ring_.read_records(out_, 4096));
}

}  // namespace
}  // namespace busbar::transport
