// Sizes of a client whose sums and products wrap, and ranges that it did not map.
#include <gtest/gtest.h>

#include "server/copy_descriptor.h"
#include "server/handlers.h"
#include "unit_tests/test_session.h"
#include "wire/encode.h"

namespace busbar::server {
namespace {

constexpr uint64_t kUnit = (uint64_t)wire::kGranularity, kAddress = 64 * kUnit;

int g_unmaps = 0;

class ClientSizesTest : public testing::Test {
 protected:
  ClientSizesTest() {
    g_unmaps = 0;
    t.cu.cuMemUnmap = [](CUdeviceptr, size_t) {
      ++g_unmaps;
      return CUDA_SUCCESS;
    };
  }
  // Runs a handler with 64-bit fields behind the reply id, and returns the status of its reply.
  uint32_t call(SessionHandler handler, std::initializer_list<uint64_t> fields) {
    std::vector<uint64_t> payload{9};
    payload.insert(payload.end(), fields);
    handler(*t.session, wire::Decoder(payload.data(), payload.size() * sizeof(uint64_t)));
    for (auto& f : t.frames())
      if (f.kind == wire::Frame::reply) return f.field<uint32_t>(8);
    ADD_FAILURE() << "there is no reply";
    return 0;
  }

  TestSession t;
};

TEST_F(ClientSizesTest, MappingIsUnmappedAsAWholeOnly) {
  Session& s = *t.session;
  s.reserved[kAddress] = 8 * kUnit;
  s.physical[5].bytes = kUnit;
  s.physical[5].mappings = 1;
  s.mapped[kAddress] = {kUnit, 5};
  for (uint64_t bytes : {uint64_t{0}, kUnit / 2, 2 * kUnit, UINT64_MAX})
    EXPECT_NE(call(handlers::unmap_memory, {kAddress, bytes}), (uint32_t)CUDA_SUCCESS) << bytes;
  EXPECT_NE(call(handlers::ipc_close, {kAddress, kUnit}), (uint32_t)CUDA_SUCCESS);
  EXPECT_EQ(g_unmaps, 0);
  EXPECT_EQ(call(handlers::unmap_memory, {kAddress, kUnit}), (uint32_t)CUDA_SUCCESS);
  EXPECT_EQ(g_unmaps, 1);
}

TEST_F(ClientSizesTest, MemoryOfAnotherSessionIsClosedAsAWholeOnly) {
  t.session->mapped[kAddress] = {2 * kUnit, 0, {}, {}, {kUnit, kUnit}};
  for (uint64_t bytes : {uint64_t{0}, kUnit, 4 * kUnit})
    EXPECT_NE(call(handlers::ipc_close, {kAddress, bytes}), (uint32_t)CUDA_SUCCESS) << bytes;
  EXPECT_NE(call(handlers::unmap_memory, {kAddress, 2 * kUnit}), (uint32_t)CUDA_SUCCESS);
  EXPECT_EQ(g_unmaps, 0);
  EXPECT_EQ(call(handlers::ipc_close, {kAddress, 2 * kUnit}), (uint32_t)CUDA_SUCCESS);
}

TEST_F(ClientSizesTest, AddressesWithAMappingAreNotFreed) {
  t.session->reserved[kAddress] = 4 * kUnit;
  t.session->mapped[kAddress + 2 * kUnit] = {kUnit, 5};
  EXPECT_NE(call(handlers::free_addresses, {kAddress, 4 * kUnit}), (uint32_t)CUDA_SUCCESS);
  t.session->mapped.clear();
  EXPECT_EQ(call(handlers::free_addresses, {kAddress, 4 * kUnit}), (uint32_t)CUDA_SUCCESS);
}

TEST_F(ClientSizesTest, AddressRangeThatWrapsIsNotReserved) {
  EXPECT_NE(call(handlers::reserve_addresses, {0 - kUnit, 2 * kUnit}), (uint32_t)CUDA_SUCCESS);
}

TEST_F(ClientSizesTest, UnknownAccessFlagsAreRefused) {
  t.session->reserved[kAddress] = kUnit;
  for (uint64_t flags : {2ull, 4ull, 1ull << 32 | 3})
    EXPECT_NE(call(handlers::set_access, {kAddress, kUnit, 0, flags}), (uint32_t)CUDA_SUCCESS);
  EXPECT_EQ(call(handlers::set_access, {kAddress, kUnit, 0, 3}), (uint32_t)CUDA_SUCCESS);
}

TEST_F(ClientSizesTest, CopyOfRowsThatWrapsIsRefused) {
  CUDA_MEMCPY3D c{};
  c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.WidthInBytes = c.Height = c.Depth = 1;
  EXPECT_TRUE(valid_copy(*t.session, c, ProgramSide::source));
  c.WidthInBytes = 1ull << 40;
  c.Height = 1ull << 24;  // their product wraps to 0
  EXPECT_EQ(copy_bytes(c), UINT64_MAX);
  EXPECT_FALSE(valid_copy(*t.session, c, ProgramSide::source));
  c.Height = 1;
  c.Depth = (1ull << 24) + 1;  // the product wraps to 2^40
  EXPECT_FALSE(valid_copy(*t.session, c, ProgramSide::source));
}

TEST_F(ClientSizesTest, UnknownKindOfResourceIsRefused) {
  CUDA_RESOURCE_DESC d{};
  d.resType = CU_RESOURCE_TYPE_LINEAR;
  d.res.linear.format = CU_AD_FORMAT_FLOAT;
  EXPECT_TRUE(t.session->accepts(d));
  d.res = {};
  d.resType = CU_RESOURCE_TYPE_ARRAY;
  EXPECT_FALSE(t.session->accepts(d)) << "the array is not one of the session";
  d.resType = (CUresourcetype)77;
  EXPECT_FALSE(t.session->accepts(d));
}

TEST_F(ClientSizesTest, TransferWithFewerBytesThanItsCopyIsNotReadInPlace) {
  PinnedBuffer buffer = t.staging(64);
  t.bulk.add(3, 0, Chunk(std::move(buffer), 64));
  EXPECT_FALSE(t.bulk.collect_pinned(3, 128));
  EXPECT_TRUE(t.bulk.collect_pinned(3, 64));
}

}  // namespace
}  // namespace busbar::server
