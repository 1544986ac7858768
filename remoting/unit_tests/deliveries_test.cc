// Parts of mapped host memory that transfers are about to write, and comparison by units.
#include "client/deliveries.h"

#include <gtest/gtest.h>

#include "client/differences.h"

namespace busbar::client {
namespace {

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

Ranges gaps(const Deliveries& d, uint64_t bytes) {
  Ranges out;
  d.for_each_gap(bytes, [&](uint64_t offset, uint64_t n) { out.emplace_back(offset, n); });
  return out;
}

TEST(DeliveriesTest, RegionWithoutTransfersIsOneGap) {
  EXPECT_EQ(gaps(Deliveries(), 100), (Ranges{{0, 100}}));
}

TEST(DeliveriesTest, OverlappingTransfersInAnyOrderLeaveTheGapsBetweenThem) {
  Deliveries d;
  d.add(1, 50, 10);
  d.add(2, 0, 5);
  d.add(3, 55, 20);
  d.add(4, 60, 2);
  EXPECT_EQ(gaps(d, 100), (Ranges{{5, 45}, {75, 25}}));
}

TEST(DeliveriesTest, CompleteTransferIsForgottenWithAllItsRows) {
  Deliveries d;
  d.add(1, 0, 10);
  d.add(2, 20, 10);
  d.add(1, 40, 60);
  d.remove_if([](uint64_t transfer) { return transfer == 1; });
  EXPECT_EQ(gaps(d, 100), (Ranges{{0, 20}, {30, 70}}));
  d.remove_if([](uint64_t) { return true; });
  EXPECT_TRUE(d.empty());
}

TEST(DifferencesTest, RunsAreWholeUnitsByAddress) {
  alignas(16) uint8_t a[32] = {}, b[32] = {};
  a[3] = a[9] = a[10] = a[31] = 1;
  Ranges words;
  differences(a + 1, b + 1, 31, 4, [&](uint64_t at, uint64_t n) { words.emplace_back(at, n); });
  EXPECT_EQ(words, (Ranges{{0, 3}, {7, 4}, {27, 4}}));
}

}  // namespace
}  // namespace busbar::client
