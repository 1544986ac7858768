// Turns of processes on a software GPU, with pages that say anything.
#include "softgpu/device/turns.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "softgpu/device/clock.h"

namespace softgpu {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

class TurnsTest : public testing::Test {
 protected:
  TurnsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "turns-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    pages_ = std::make_unique<PeerPages>(folder_, 0);
    turns_ = std::make_unique<Turns>(own_, 0, *pages_);
  }
  ~TurnsTest() override { std::filesystem::remove_all(folder_); }

  // Adds a process and returns its use of the device. The mapping keeps it alive.
  DeviceUse& add_process() {
    UseFile file = create_use_file(folder_);
    EXPECT_EQ(ftruncate(file.fd, kUsePageBytes), 0);
    void* at = mmap(nullptr, kUsePageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    close(file.fd);
    page_ = (UsePage*)at;
    return page_->devices[0];
  }
  uint64_t time_to_acquire() {
    uint64_t begin = now();
    turns_->acquire();
    return now() - begin;
  }

  std::string folder_;
  UsePage* page_ = nullptr;  // of the newest process
  DeviceUse own_{};
  std::unique_ptr<PeerPages> pages_;
  std::unique_ptr<Turns> turns_;
};

TEST_F(TurnsTest, WaitEndsWithTheTurnOfTheOther) {
  DeviceUse& other = add_process();
  other.waiting_since = now();
  std::thread ends([&] {
    usleep(20'000);
    other.waiting_since = 0;
    other.ended_turns++;
  });
  uint64_t waited = time_to_acquire();
  ends.join();
  EXPECT_GE(waited, 20 * kMillisecond);
  EXPECT_LT(waited, kPatience);
  turns_->release(0);
}

TEST_F(TurnsTest, ProcessThatWaitsLaterDelaysNobody) {
  add_process().waiting_since = UINT64_MAX;
  EXPECT_LT(time_to_acquire(), kPatience / 2);
  EXPECT_TRUE(turns_->contended());
  turns_->release(0);
  EXPECT_EQ(own_.waiting_since, 0u);
}

TEST_F(TurnsTest, ProcessThatNeverEndsItsTurnIsIgnoredAfterTheLimit) {
  add_process().waiting_since = 1;
  uint64_t first = time_to_acquire();
  EXPECT_GE(first, kPatience);
  EXPECT_LT(first, kLongestWait);
  EXPECT_FALSE(turns_->contended());
  turns_->release(0);
  EXPECT_LT(time_to_acquire(), kPatience / 2);
}

TEST_F(TurnsTest, ManyProcessesThatNeverEndDelayByTheLongestWait) {
  for (int i = 1; i <= 50; ++i) add_process().waiting_since = (uint64_t)i;
  EXPECT_LT(time_to_acquire(), kLongestWait + kPatience);
}

TEST_F(TurnsTest, EndedProcessDelaysNobody) {
  add_process().waiting_since = 1;
  munmap(page_, kUsePageBytes);
  EXPECT_LT(time_to_acquire(), kPatience / 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TurnsTest, IncompleteFileIsNoProcess) {
  create_use_file(folder_);
  EXPECT_LT(time_to_acquire(), kPatience / 2);
  EXPECT_FALSE(turns_->contended());
}

}  // namespace
}  // namespace softgpu
