#include "visible_devices.h"

#include <gtest/gtest.h>

namespace busbar {
namespace {

using Indexes = std::vector<size_t>;

// Three devices; the UUIDs of the first two differ in the ninth digit.
Indexes visible(const char* list) {
  static const std::vector<DeviceUuid> uuids = {
      {0x9e, 0x8d, 0x35, 0xe3, 0xa1}, {0x9e, 0x8d, 0x35, 0xe3, 0xb1}, {0x1c, 0x20, 0xe7}};
  return visible_devices(list, uuids);
}

TEST(VisibleDevices, AllAreVisibleWithoutAList) {
  EXPECT_EQ(visible(nullptr), Indexes({0, 1, 2}));
  EXPECT_EQ(visible_devices(nullptr, {}), Indexes());
}

TEST(VisibleDevices, EmptyListShowsNone) {
  EXPECT_EQ(visible(""), Indexes());
  EXPECT_EQ(visible(" "), Indexes());
  EXPECT_EQ(visible("NoDevFiles"), Indexes());
}

TEST(VisibleDevices, OrderOfTheListIsKept) {
  EXPECT_EQ(visible("2,0,1"), Indexes({2, 0, 1}));
  EXPECT_EQ(visible("GPU-1c20,GPU-9e8d35e3-b"), Indexes({2, 1}));
}

TEST(VisibleDevices, ListEndsAtTheFirstEntryThatNamesNoDevice) {
  EXPECT_EQ(visible("0,2,-1,1"), Indexes({0, 2}));
  EXPECT_EQ(visible("1,3,0"), Indexes({1}));
  EXPECT_EQ(visible("0,,1"), Indexes({0}));
  EXPECT_EQ(visible(",0"), Indexes());
  EXPECT_EQ(visible("1,"), Indexes({1}));
  EXPECT_EQ(visible("2,one,0"), Indexes({2}));
  EXPECT_EQ(visible("0,99999999999999999999,1"), Indexes({0}));
  EXPECT_EQ(visible("GPU-1c20,GPU-77,GPU-9e8d35e3-a"), Indexes({2}));
}

TEST(VisibleDevices, EntryBehindTheEndIsNoRepetition) {
  EXPECT_EQ(visible("0,7,0"), Indexes({0}));
}

TEST(VisibleDevices, DeviceThatIsNamedTwiceLeavesNone) {
  EXPECT_EQ(visible("0,1,0"), Indexes());
  EXPECT_EQ(visible("1,+1"), Indexes());
  EXPECT_EQ(visible("GPU-1c20,GPU-9e8d35e3-a,GPU-1c"), Indexes());
}

TEST(VisibleDevices, IndexIsReadAsStrtolDoes) {
  EXPECT_EQ(visible(" 0, 1"), Indexes({0, 1}));
  EXPECT_EQ(visible("0 ,1\t"), Indexes({0, 1}));
  EXPECT_EQ(visible("1gpu2,2ampere"), Indexes({1, 2}));
  EXPECT_EQ(visible("2, +1, -0"), Indexes({2, 1, 0}));
  EXPECT_EQ(visible("0x1,1"), Indexes({0, 1}));
  EXPECT_EQ(visible("010"), Indexes());
}

TEST(VisibleDevices, BeginningOfAUuidMustNameOneDevice) {
  EXPECT_EQ(visible("GPU-9e8d35e3-a"), Indexes({0}));
  EXPECT_EQ(visible("GPU-9e8d35e3-b100-0000-0000-000000000000"), Indexes({1}));
  EXPECT_EQ(visible("GPU-9e8d35e3"), Indexes());
  EXPECT_EQ(visible("GPU-1c20,GPU-9e,GPU-9e8d35e3-a"), Indexes({2}));
  EXPECT_EQ(visible("GPU-9e8d35e3-b100-0000-0000-0000000000000"), Indexes());
  EXPECT_EQ(visible("GPU-"), Indexes());
  EXPECT_EQ(visible("1c20e7"), Indexes({1}));  // an index with text behind it
  EXPECT_EQ(visible("gpu-1c20"), Indexes());
}

TEST(VisibleDevices, FirstEntryDecidesTheFormOfAll) {
  EXPECT_EQ(visible("GPU-1c20,0"), Indexes({2}));
  EXPECT_EQ(visible("0,GPU-1c20"), Indexes({0}));
  EXPECT_EQ(visible("GPU-1c20, GPU-9e8d35e3-a"), Indexes({2}));
}

TEST(VisibleDevices, MigDeviceNamesNone) {
  EXPECT_EQ(visible("MIG-9e8d35e3-a100-0000-0000-000000000000"), Indexes());
  EXPECT_EQ(visible("MIG-GPU-1c20e700-0000-0000-0000-000000000000/1/0"), Indexes());
  EXPECT_EQ(visible("1,MIG-1c20"), Indexes({1}));
}

}  // namespace
}  // namespace busbar
