// Heap of the client: leases of a node with so many bytes, and what an allocation can have of them.
#include "client/heap.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace busbar::client {
namespace {

constexpr uint64_t kMib = 1 << 20, kHeapBase = 1ull << 40, kNodeBytes = 1024 * kMib;
constexpr std::chrono::seconds kHeapDeadline{60};
using HeapRanges = std::map<uint64_t, uint64_t>;  // address to bytes

bool overlaps(const HeapRanges& ranges, uint64_t at, uint64_t bytes) {
  auto next = ranges.lower_bound(at);
  if (next != ranges.end() && next->first < at + bytes) return true;
  return next != ranges.begin() && std::prev(next)->first + std::prev(next)->second > at;
}

class HeapTest : public testing::Test {
 protected:
  // An allocation; 0: the memory does not suffice.
  uint64_t allocate(uint64_t bytes) {
    uint64_t at = 0;
    return heap.allocate(bytes, [] {}, at) ? 0 : at;
  }
  void release(uint64_t at, uint64_t bytes) {
    heap.release(at, bytes, [] { return true; }, false);
  }
  bool is_leased(uint64_t at, uint64_t end) const {
    while (at < end) {
      auto lease = leases.upper_bound(at);
      if (lease == leases.begin() || (--lease)->first + lease->second <= at) return false;
      at = lease->first + lease->second;
    }
    return true;
  }
  uint64_t leased() const { return kNodeBytes - left; }
  // Runs in another thread, which must not wait for this one.
  void run_beside(std::function<void()> f) {
    beside = std::async(std::launch::async, std::move(f));
    EXPECT_EQ(beside.wait_for(kHeapDeadline), std::future_status::ready);
  }
  CUresult add_lease(uint64_t at, uint64_t bytes, bool asks) {
    EXPECT_FALSE(is_requesting.exchange(true)) << "one thread at a time requests leases";
    ++requests;
    if (auto f = asks ? std::exchange(on_ask, nullptr) : std::exchange(on_request, nullptr)) f();
    std::this_thread::yield();
    is_requesting = false;
    std::lock_guard lock(mutex);
    if (bytes > left) return CUDA_ERROR_OUT_OF_MEMORY;
    EXPECT_FALSE(overlaps(leases, at, bytes));
    left -= bytes;
    leases[at] = bytes;
    return CUDA_SUCCESS;
  }
  void end_lease(uint64_t at, uint64_t bytes) {
    std::lock_guard lock(mutex);
    EXPECT_EQ(leases[at], bytes) << "leases are returned whole";
    leases.erase(at);
    left += bytes;
  }

  std::mutex mutex;            // guards `left` and `leases`
  uint64_t left = kNodeBytes;  // of the node
  int requests = 0;
  HeapRanges leases;
  std::function<void()> on_request, on_ask;  // called once, before a lease is granted
  std::atomic<bool> is_requesting{false};
  std::future<void> beside;
  Heap heap{kHeapBase, 4 * kNodeBytes,
            [this](uint64_t at, uint64_t bytes, bool asks) { return add_lease(at, bytes, asks); },
            [this](uint64_t at, uint64_t bytes) { end_lease(at, bytes); }};
};

TEST_F(HeapTest, SmallAllocationLeasesLittle) {
  EXPECT_TRUE(allocate(kMib));
  EXPECT_EQ(leased(), wire::kGranularity);
}

TEST_F(HeapTest, WholePartitionIsOneAllocation) {
  EXPECT_TRUE(allocate(kNodeBytes));
  EXPECT_FALSE(allocate(512));
}

TEST_F(HeapTest, RestIsOneAllocationAfterSmallOnes) {
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(allocate((uint64_t)(1 + i % 3) * kMib));
  EXPECT_TRUE(allocate(left + heap.unused_bytes()));
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(heap.unused_bytes(), 0u);
}

TEST_F(HeapTest, AllocationsLeaveNothingBetweenThem) {
  constexpr uint64_t kBytes = 33 * kMib;
  uint64_t count = 0;
  while (allocate(kBytes)) ++count;
  EXPECT_EQ(count, kNodeBytes / kBytes) << "only the first one has a lease of its own";
}

TEST_F(HeapTest, LargeAllocationGoesBackWhole) {
  EXPECT_TRUE(allocate(kMib));
  uint64_t first = allocate(128 * kMib);
  EXPECT_TRUE(allocate(128 * kMib));
  release(first, 128 * kMib);
  EXPECT_EQ(leased(), 130 * kMib);
}

TEST_F(HeapTest, SmallAllocationDoesNotKeepTheLeaseOfALargeOne) {
  constexpr uint64_t kLarge = 101 * kMib + 512;
  ASSERT_TRUE(allocate(64 << 10));
  uint64_t large = allocate(kLarge);
  ASSERT_TRUE(large && allocate(512 << 10));
  release(large, kLarge);
  EXPECT_LT(leased(), 8 * kMib);
}

TEST_F(HeapTest, LeasesGrowWithTheMemoryInUse) {
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(allocate(kMib));
  EXPECT_LE(requests, 10);
  EXPECT_LE(leased(), 256 * kMib + wire::kLeaseBytes);
}

TEST_F(HeapTest, AllocationsHaveLeasesAndDoNotOverlap) {
  HeapRanges held;
  for (uint64_t i = 0; i < 600; ++i) {
    uint64_t bytes = (1 + i * 7 % 11) * kMib;
    if (uint64_t at = allocate(bytes)) held[at] = bytes;
    if (i % 3) continue;
    auto it = std::next(held.begin(), (ptrdiff_t)(i % held.size()));
    release(it->first, it->second);
    held.erase(it);
  }
  uint64_t end = 0;
  for (auto& [at, bytes] : held) {
    EXPECT_GE(at, end);
    end = at + bytes;
    EXPECT_TRUE(is_leased(at, end));
  }
  for (auto& [at, bytes] : held) release(at, bytes);
  heap.return_unused();
  EXPECT_EQ(left, kNodeBytes);
  EXPECT_TRUE(allocate(kNodeBytes));
}

TEST_F(HeapTest, UnusedLeasesAreKeptForTheNextAllocationsUpToALimit) {
  uint64_t small = allocate(20 * kMib), large = allocate(100 * kMib);
  release(small, 20 * kMib);
  release(large, 100 * kMib);
  EXPECT_LE(leased(), wire::kLeaseBytes);
  int before = requests;
  EXPECT_TRUE(allocate(20 * kMib));
  EXPECT_EQ(requests, before);
  heap.return_unused();
  EXPECT_EQ(heap.unused_bytes(), 0u);
}

TEST_F(HeapTest, UnusedLeasesMakeRoomForALargerOne) {
  uint64_t first = allocate(30 * kMib), used = allocate(10 * kMib), last = allocate(30 * kMib);
  release(first, 30 * kMib);
  release(last, 30 * kMib);
  EXPECT_TRUE(used && allocate(kNodeBytes - 40 * kMib));
}

TEST_F(HeapTest, MemoryThatWorkUsedIsReturnedAfterTheWork) {
  bool complete = false;
  uint64_t at = allocate(20 * kMib);
  heap.release(at, 20 * kMib, [&] { return complete; }, false);
  EXPECT_FALSE(heap.return_unused());
  complete = true;
  EXPECT_TRUE(heap.return_unused());
  EXPECT_EQ(leased(), 0u);
  EXPECT_FALSE(heap.return_unused());
}

TEST_F(HeapTest, FreeMemoryIsUsedWhileALeaseIsRequested) {
  ASSERT_TRUE(allocate(kMib));
  on_request = [this] {
    run_beside([this] {
      uint64_t at = allocate(kMib);
      EXPECT_TRUE(at);
      release(at, kMib);
      EXPECT_EQ(heap.unused_bytes(), 0u) << "too small for a lease";
    });
  };
  EXPECT_TRUE(allocate(100 * kMib));
  EXPECT_FALSE(on_request);
}

TEST_F(HeapTest, AllocationGetsAnotherLeaseIfFreeMemoryBesideItIsTakenMeanwhile) {
  ASSERT_TRUE(allocate(8 * kMib));
  ASSERT_TRUE(allocate(5 * kMib));  // 3 MiB behind it are free
  left = 0;
  on_ask = [this] {
    run_beside([this] { EXPECT_TRUE(allocate(2 * kMib)); });
    left = 16 * kMib;
  };
  EXPECT_TRUE(allocate(16 * kMib));
  EXPECT_EQ(left, 0u);
}

TEST_F(HeapTest, LeasesThatBecomeUnusedMeanwhileAreReturned) {
  uint64_t large = allocate(100 * kMib);
  ASSERT_TRUE(large);
  on_request = [&] {
    run_beside([&] { release(large, 100 * kMib); });
    EXPECT_EQ(left, kNodeBytes);
  };
  uint64_t at = allocate(200 * kMib);
  EXPECT_TRUE(is_leased(at, at + 200 * kMib));
  EXPECT_EQ(leased(), 200 * kMib);
}

TEST_F(HeapTest, ThreadsGetMemoryThatDoesNotOverlap) {
  constexpr int kThreads = 4, kRounds = 2000;
  std::mutex held_mutex;
  HeapRanges held;
  auto free_range = [&](uint64_t at, uint64_t bytes) {
    std::unique_lock lock(held_mutex);
    held.erase(at);
    lock.unlock();
    release(at, bytes);
  };
  auto work = [&](unsigned seed) {
    std::minstd_rand random(seed);
    std::vector<std::pair<uint64_t, uint64_t>> own;
    for (int i = 0; i < kRounds; ++i) {
      uint64_t bytes = (random() % 100 + 1) * kMib / (i % 2 ? 1u : 64u);
      if (uint64_t at = i % 3 ? allocate(bytes) : 0) {
        std::lock_guard lock(held_mutex);
        EXPECT_FALSE(overlaps(held, at, bytes));
        held[at] = bytes;
        own.emplace_back(at, bytes);
      } else if (!own.empty()) {
        std::swap(own[random() % own.size()], own.back());
        free_range(own.back().first, own.back().second);
        own.pop_back();
      }
    }
    for (auto& [at, bytes] : own) free_range(at, bytes);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(work, i + 1);
  for (auto& t : threads) t.join();
  heap.return_unused();
  EXPECT_EQ(left, kNodeBytes);
  EXPECT_TRUE(allocate(kNodeBytes));
}

}  // namespace
}  // namespace busbar::client
