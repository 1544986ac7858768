#include "cache_quota.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace busbar {
namespace {
namespace fs = std::filesystem;
constexpr uint64_t kBlock = 4096, kMuch = 1ull << 40;
const fs::path kOne = std::string(32, '1'), kTwo = std::string(32, '2'),
               kThree = std::string(32, '3');

class CacheQuota : public testing::Test {
 protected:
  CacheQuota() {
    for (const auto& tenant : {kOne, kTwo, kThree}) fs::create_directory(folder_ / tenant);
  }
  ~CacheQuota() override { fs::remove_all(folder_); }
  void add(const fs::path& name, int minutes_ago) {
    std::ofstream(folder_ / name) << std::string(kBlock, 'x');
    auto now = fs::file_time_type::clock::now();
    fs::last_write_time(folder_ / name, now - std::chrono::minutes(minutes_ago));
  }
  bool has(const fs::path& name) const { return fs::exists(fs::symlink_status(folder_ / name)); }
  void trim(uint64_t tenant_bytes, uint64_t total_bytes) const {
    int root = open(folder_.c_str(), O_RDONLY | O_DIRECTORY);
    trim_tenants(root, {tenant_bytes, total_bytes});
    close(root);
  }

  char pattern_[32] = "/tmp/busbar-unit-XXXXXX";
  fs::path folder_ = mkdtemp(pattern_);
};

TEST_F(CacheQuota, FilesUsedLeastRecentlyGoFirst) {
  add(kOne / "a", 30);
  add(kOne / "b", 20);
  add(kOne / "c", 10);
  trim(3 * kBlock, kMuch);
  EXPECT_TRUE(has(kOne / "a"));
  mark_used(folder_ / kOne / "a");
  trim(2 * kBlock, kMuch);
  EXPECT_TRUE(has(kOne / "a") && has(kOne / "c"));
  EXPECT_FALSE(has(kOne / "b"));
}

TEST_F(CacheQuota, OtherTenantsKeepTheirFiles) {
  add(kOne / "a", 30);
  add(kTwo / "b", 20);
  add(kTwo / "c", 10);
  trim(kBlock, kMuch);
  EXPECT_TRUE(has(kOne / "a") && has(kTwo / "c"));
  EXPECT_FALSE(has(kTwo / "b"));
}

TEST_F(CacheQuota, TenantWithTheMostBytesGivesUpTheDifference) {
  add(kOne / "old", 90);
  for (int i = 0; i < 8; ++i) add(kTwo / std::to_string(i), 10 - i);
  for (int i = 0; i < 3; ++i) add(kThree / std::to_string(i), 10 - i);
  trim(kMuch, 8 * kBlock);
  EXPECT_TRUE(has(kOne / "old"));
  for (auto* kept : {"0", "1", "2"}) EXPECT_TRUE(has(kThree / kept));
  EXPECT_FALSE(has(kTwo / "3"));
  EXPECT_TRUE(has(kTwo / "4"));
}

TEST_F(CacheQuota, EmptyFilesCount) {
  for (int i = 0; i < 8; ++i) std::ofstream(folder_ / kOne / std::to_string(i));
  trim(2 * kBlock, kMuch);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / kOne), {}), 2);
}

TEST_F(CacheQuota, LinksAreRemovedAndNotFollowed) {
  fs::create_directory(folder_ / "other");
  add("other/kept", 90);
  fs::create_directory_symlink(folder_ / "other", folder_ / kOne / "folder");
  fs::create_symlink(folder_ / "other" / "kept", folder_ / kOne / "file");
  fs::create_directory_symlink(folder_ / "other", folder_ / std::string(32, '4'));
  trim(0, 0);
  EXPECT_TRUE(has("other/kept"));
  EXPECT_FALSE(has(kOne / "folder") || has(kOne / "file"));
}

TEST_F(CacheQuota, FoldersOfATenantAreRemoved) {
  fs::create_directories(folder_ / kOne / "a" / "b");
  add(kOne / "a" / "b" / "c", 0);
  trim(kMuch, kMuch);
  EXPECT_FALSE(has(kOne / "a"));
}

// Session servers on NVIDIA's driver may make folders.
TEST_F(CacheQuota, FolderDeeperThanTheNumberOfDescriptorsIsRemoved) {
  constexpr int kDepth = 300;
  constexpr rlim_t kDescriptors = 64;
  int at = open((folder_ / kOne).c_str(), O_PATH | O_DIRECTORY);
  for (int i = 0; i < kDepth; ++i) {
    mkdirat(at, "d", 0700);
    int next = openat(at, "d", O_PATH | O_DIRECTORY);
    close(at);
    at = next;
  }
  close(openat(at, "x", O_WRONLY | O_CREAT, 0600));
  close(at);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few{kDescriptors, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  trim(kMuch, kMuch);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(fs::is_empty(folder_ / kOne));
}

// The spawner of an installed node has no right to read what its user may not read.
TEST_F(CacheQuota, FolderThatItsOwnerMayNotListIsRemoved) {
  constexpr uid_t kUser = 65534;
  constexpr mode_t kEnterAndWrite = 0300;
  fs::create_directory(folder_ / kOne / "d");
  add(kOne / "d" / "x", 0);
  for (const auto& path : {folder_, folder_ / kOne, folder_ / kOne / "d"})
    (void)!chown(path.c_str(), kUser, kUser);
  chmod((folder_ / kOne / "d").c_str(), kEnterAndWrite);
  pid_t pid = fork();
  if (pid == 0) {
    (void)!setresuid(kUser, kUser, kUser);  // not possible if it is another user already
    trim(kMuch, kMuch);
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
  EXPECT_FALSE(has(kOne / "d"));
}

// A name that is taken does not keep a folder from moving up.
TEST_F(CacheQuota, FoldersWithNamesOfMovedOnesAreRemoved) {
  fs::create_directories(folder_ / kOne / ".removed-0" / ".removed-1" / ".removed-2");
  fs::create_directories(folder_ / kOne / "a" / ".removed-0" / "b");
  trim(kMuch, kMuch);
  EXPECT_TRUE(fs::is_empty(folder_ / kOne));
}

TEST_F(CacheQuota, FoldersWithOtherNamesAreLeftAlone) {
  fs::create_directories(folder_ / "home" / "documents");
  add("home/letter", 90);
  add("file", 90);
  trim(0, 0);
  EXPECT_TRUE(has("home/letter") && has("home/documents") && has("file"));
}

}  // namespace
}  // namespace busbar
