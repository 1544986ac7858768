#include "cache_quota.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace busbar {
namespace {
namespace fs = std::filesystem;

class CacheQuota : public testing::Test {
 protected:
  ~CacheQuota() override { fs::remove_all(folder_); }
  void add(const fs::path& name, int minutes_ago) {
    std::ofstream(folder_ / name) << std::string(100, 'x');
    auto now = fs::file_time_type::clock::now();
    fs::last_write_time(folder_ / name, now - std::chrono::minutes(minutes_ago));
  }
  bool has(const fs::path& name) const { return fs::exists(folder_ / name); }

  char pattern_[32] = "/tmp/busbar-unit-XXXXXX";
  fs::path folder_ = mkdtemp(pattern_);
};

TEST_F(CacheQuota, FilesUsedLeastRecentlyGoFirst) {
  fs::create_directory(folder_ / "tenant");
  add("a", 30);
  add("tenant/b", 20);
  add("c", 10);
  trim_cache(folder_, 300);
  EXPECT_TRUE(has("a"));
  mark_used(folder_ / "a");
  trim_cache(folder_, 250);
  EXPECT_TRUE(has("a") && has("c"));
  EXPECT_FALSE(has("tenant/b"));
  trim_cache(folder_, 100);
  EXPECT_TRUE(has("a"));
  EXPECT_FALSE(has("c"));
}

TEST_F(CacheQuota, LinksAreNotFollowed) {
  fs::create_directory(folder_ / "cache");
  fs::create_directory(folder_ / "other");
  add("other/kept", 90);
  fs::create_directory_symlink(folder_ / "other", folder_ / "cache" / "folder");
  fs::create_symlink(folder_ / "other" / "kept", folder_ / "cache" / "file");
  trim_cache(folder_ / "cache", 0);
  EXPECT_TRUE(has("other/kept"));
}

TEST_F(CacheQuota, MissingFolderIsNoError) {
  trim_cache(folder_ / "missing", 0);
}

}  // namespace
}  // namespace busbar
