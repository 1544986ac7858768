// Folders that others can change.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "spawner/folders.h"

using busbar::spawner::open_below;

namespace {
std::string folder_path(int fd) {
  char path[4096] = {};
  std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), path, sizeof path - 1) > 0 ? path : "";
}

class Folder {
 public:
  Folder() { EXPECT_TRUE(mkdtemp(path_.data())); }
  ~Folder() { (void)!std::system(("rm -r " + path_).c_str()); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/busbar-unit-XXXXXX";
};

TEST(Folders, ACreatedFolderIsOpened) {
  Folder folder;
  int fd = open_below(folder.path(), "a/b", folder.path());
  EXPECT_EQ(folder_path(fd), folder / "a/b");
  close(fd);
}

TEST(Folders, NoLinkBelowTheFolderIsFollowed) {
  Folder folder, other;
  ASSERT_EQ(mkdir((other / "b").c_str(), 0700), 0);
  ASSERT_EQ(symlink(other.path().c_str(), (folder / "a").c_str()), 0);
  ASSERT_EQ(symlink((other / "b").c_str(), (folder / "c").c_str()), 0);
  EXPECT_EQ(open_below(folder.path(), "a/b", folder.path()), -1);
  EXPECT_EQ(open_below(folder.path(), "c", folder.path()), -1);
}

TEST(Folders, ALinkToTheFolderItselfIsFollowed) {
  Folder folder, other;
  ASSERT_EQ(symlink(folder.path().c_str(), (other / "link").c_str()), 0);
  int fd = open_below(other / "link", "a", folder.path());
  EXPECT_EQ(folder_path(fd), folder / "a");
  close(fd);
}
}  // namespace
