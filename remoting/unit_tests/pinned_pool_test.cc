// The pinned pool: slots, shares of streams, and limits.
#include "server/pinned_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "unit_tests/test_session.h"

namespace busbar::server {
namespace {

constexpr uint64_t kSmall = 64, kPiece = 1 << 20;

class PinnedPoolTest : public testing::Test {
 protected:
  // Adds slabs as needed.
  PinnedBuffer acquire(uint64_t bytes) {
    bool needs_slab = false;
    PinnedBuffer buffer = pool.acquire(bytes, user, needs_slab);
    if (needs_slab && pool.grow()) buffer = pool.acquire(bytes, user, needs_slab);
    return buffer;
  }
  Driver cu = fuzz::stub_driver();
  PinnedPool pool{cu};
  std::shared_ptr<StreamUse> user = std::make_shared<StreamUse>();
};

TEST_F(PinnedPoolTest, SmallBuffersShareASlab) {
  std::vector<PinnedBuffer> buffers;
  std::set<uint8_t*> slots;
  for (uint64_t i = 0; i < PinnedPool::kSlabBytes / kSmall; ++i) {
    buffers.push_back(acquire(kSmall));
    slots.insert(buffers.back().data());
  }
  EXPECT_EQ(slots.size(), buffers.size());
  EXPECT_EQ((uint64_t)(*slots.rbegin() - *slots.begin()), PinnedPool::kSlabBytes - kSmall);
}

TEST_F(PinnedPoolTest, ReturnedSlotsAreUsedAgain) {
  uint8_t* first = acquire(kSmall).data();
  EXPECT_EQ(acquire(kSmall).data(), first);
  EXPECT_TRUE(pool.unused());
  EXPECT_EQ(user->staging_bytes, 0u);
}

TEST_F(PinnedPoolTest, EmptySlabTakesAnotherSize) {
  uint8_t* first = acquire(kSmall).data();
  EXPECT_EQ(acquire(PinnedPool::kSlabBytes).data(), first);
}

TEST_F(PinnedPoolTest, StreamHoldsAtMostAsMuchAsIsFree) {
  std::vector<PinnedBuffer> buffers;
  for (PinnedBuffer b; (b = acquire(kPiece));) buffers.push_back(std::move(b));
  EXPECT_EQ(buffers.size() * kPiece, PinnedPool::kPoolBytes / 2);
  std::vector<PinnedBuffer> others;
  user = std::make_shared<StreamUse>();
  for (PinnedBuffer b; (b = acquire(kPiece));) others.push_back(std::move(b));
  EXPECT_EQ(others.size() * kPiece, PinnedPool::kPoolBytes / 4);
}

TEST_F(PinnedPoolTest, PoolEndsAtItsLimit) {
  std::vector<PinnedBuffer> buffers;
  for (;;) {
    user = std::make_shared<StreamUse>();
    PinnedBuffer b = acquire(PinnedPool::kSlabBytes);
    if (!b) break;
    buffers.push_back(std::move(b));
  }
  EXPECT_EQ(buffers.size(), PinnedPool::kPoolBytes / PinnedPool::kSlabBytes);
  EXPECT_EQ(pool.begin_growth(), Growth::impossible);
}

TEST_F(PinnedPoolTest, BytesWithoutAStreamUseAtMostHalfOfThePool) {
  std::vector<PinnedBuffer> buffers, idle;
  while (pool.grow()) {
  }
  for (PinnedBuffer b; (b = pool.acquire_idle(kPiece));) idle.push_back(std::move(b));
  EXPECT_EQ(idle.size() * kPiece, PinnedPool::kPoolBytes / 2);
  EXPECT_TRUE(acquire(kPiece));
}

TEST_F(PinnedPoolTest, BufferLargerThanASlabIsRefused) {
  EXPECT_FALSE(acquire(PinnedPool::kSlabBytes + 1));
}

// The driver is asked again when nothing is left that could be returned.
TEST_F(PinnedPoolTest, RefusalOfTheDriverLastsWhileBuffersAreInUse) {
  PinnedBuffer held = acquire(PinnedPool::kSlabBytes);
  auto allocate = cu.cuMemHostAlloc;
  cu.cuMemHostAlloc = [](void**, size_t, unsigned) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  EXPECT_FALSE(pool.grow());
  cu.cuMemHostAlloc = allocate;
  EXPECT_EQ(pool.begin_growth(), Growth::impossible);
  held = {};
  EXPECT_EQ(pool.begin_growth(), Growth::impossible);  // one record reports the refusal
  EXPECT_EQ(pool.begin_growth(), Growth::begin);
  EXPECT_EQ(pool.begin_growth(), Growth::due);
}

}  // namespace
}  // namespace busbar::server
