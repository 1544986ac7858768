// Decoding of untrusted records, and the opcode table.
#include "wire/decode.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/operations.h"
#include "server/record_reader.h"
#include "wire/encode.h"

namespace busbar::server {
namespace {

using wire::Decoder;

std::vector<uint8_t> header(uint32_t bytes, uint16_t opcode) {
  std::vector<uint8_t> r(sizeof(wire::RecordHeader));
  wire::RecordHeader h{bytes, opcode, 0, 1, 17};
  std::memcpy(r.data(), &h, sizeof h);
  return r;
}

TEST(DecoderTest, ReadPastTheEndReturnsZeroAndFailsForGood) {
  uint8_t bytes[6] = {1, 2, 3, 4, 5, 6};
  Decoder in(bytes, sizeof bytes);
  EXPECT_EQ(in.get<uint32_t>(), 0x04030201u);
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(in.get<uint32_t>(), 0u);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.get<uint8_t>(), 0) << "a failed decoder must not read on";
}

TEST(DecoderTest, RawRejectsMoreBytesThanAreLeft) {
  uint8_t bytes[8] = {};
  Decoder in(bytes, sizeof bytes);
  EXPECT_EQ(in.raw(9), nullptr);
  EXPECT_FALSE(in.ok());
}

TEST(DecoderTest, ElementCountThatOverflowsIsRejected) {
  uint8_t bytes[16] = {};
  std::vector<uint64_t> out;
  Decoder in(bytes, sizeof bytes);
  EXPECT_FALSE(in.elements(out, (1ull << 61) + 1));  // times 8 it is 8
  EXPECT_TRUE(out.empty());
}

TEST(DecoderTest, TextLongerThanItsLimitIsRejected) {
  std::vector<uint8_t> bytes(4 + 10, 'x');
  uint32_t n = 10;
  std::memcpy(bytes.data(), &n, sizeof n);
  EXPECT_EQ(Decoder(bytes.data(), bytes.size()).text(10), std::string(10, 'x'));
  Decoder in(bytes.data(), bytes.size());
  EXPECT_EQ(in.text(9), "");
  EXPECT_FALSE(in.ok());
}

TEST(RecordReaderTest, PositionsAccumulate) {
  RecordReader reader;
  wire::Encoder<> e(wire::Op::launch, 1, 17);
  e.put<uint64_t>(1);
  const uint8_t* p = e.finish();
  for (uint64_t i = 1; i <= 3; ++i) {
    Record r;
    ASSERT_EQ(reader.next(p, e.size(), r), ReadResult::record);
    EXPECT_EQ(r.position, i * e.size());
    EXPECT_STREQ(r.operation->name, "launch");
  }
}

TEST(RecordReaderTest, TruncatedRecordIsIncomplete) {
  RecordReader reader;
  Record r;
  auto bytes = header(32, (uint16_t)wire::Op::launch);
  EXPECT_EQ(reader.next(bytes.data(), 15, r), ReadResult::incomplete);
  EXPECT_EQ(reader.next(bytes.data(), bytes.size(), r), ReadResult::incomplete);
  EXPECT_EQ(reader.position(), 0u);
}

TEST(RecordReaderTest, RecordWithInvalidLengthIsMalformed) {
  for (uint32_t bytes : {0u, 8u, 24u, wire::kMaxRecordBytes + 16, 0xfffffff0u}) {
    RecordReader reader;
    Record r;
    auto h = header(bytes, (uint16_t)wire::Op::launch);
    EXPECT_EQ(reader.next(h.data(), h.size(), r), ReadResult::malformed) << bytes;
  }
}

TEST(RecordReaderTest, UnknownOpcodeIsMalformed) {
  for (uint16_t opcode : {0x0000, 0x0fff, 0x1000, 0x10af, 0x10b0, 0xffff}) {
    RecordReader reader;
    Record r;
    auto h = header(16, opcode);
    EXPECT_EQ(reader.next(h.data(), h.size(), r), ReadResult::malformed) << opcode;
  }
}

TEST(OperationsTest, EveryRowHasItsOwnNumberAndOneHandler) {
  std::set<uint16_t> numbers;
#define OP(row, number, order, thread, handler)                                   \
  {                                                                               \
    EXPECT_TRUE(numbers.insert(number).second) << #row;                           \
    const Operation* o = find_operation(number);                                  \
    ASSERT_NE(o, nullptr) << #row;                                                \
    EXPECT_STREQ(o->name, #row);                                                  \
    EXPECT_EQ(!!o->session + !!o->pipeline + !!o->stream + !!o->call, 1) << #row; \
  }
  BUSBAR_OPCODES(OP)
#undef OP
}

TEST(OperationsTest, OnlySessionHandlersRunOnHelperThreads) {
  for (uint32_t opcode = 0; opcode <= 0xffff; ++opcode) {
    const Operation* o = find_operation((uint16_t)opcode);
    if (!o || o->thread == wire::Thread::executor) continue;
    EXPECT_TRUE(o->session || o->call) << o->name;
    EXPECT_NE(o->order, wire::Order::stream) << o->name;
  }
}

}  // namespace
}  // namespace busbar::server
