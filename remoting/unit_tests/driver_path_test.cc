// The folders of a library that the loader finds.
#include "spawner/driver_path.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

namespace busbar::spawner {

TEST(DriverPath, LibraryIsFoundWhereTheLoaderFindsIt) {
  std::string path = find_library("libm.so.6");
  EXPECT_EQ(path[0], '/');
  EXPECT_TRUE(path.ends_with("/libm.so.6"));
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(DriverPath, UnknownLibraryAndPathStayAsTheyAre) {
  EXPECT_EQ(find_library("libbusbar-absent.so.9"), "libbusbar-absent.so.9");
  EXPECT_EQ(find_library("/absent/libcuda.so.1"), "/absent/libcuda.so.1");
  EXPECT_TRUE(folders_of("libbusbar-absent.so.9").empty());
}

TEST(DriverPath, FolderOfTheFileBehindALinkIsNamed) {
  char folder[] = "/tmp/busbar-driver-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder));
  std::string at = folder, link = at + "/links/libcuda.so.1";
  std::filesystem::create_directories(at + "/links");
  std::filesystem::create_directories(at + "/files");
  ASSERT_EQ(symlink("../files/libcuda.so.580", link.c_str()), 0);
  EXPECT_EQ(folders_of(link), std::vector{at + "/links"});
  ASSERT_EQ(symlink("/dev/null", (at + "/files/libcuda.so.580").c_str()), 0);
  EXPECT_EQ(folders_of(link), (std::vector{at + "/links", std::string("/dev")}));
  std::filesystem::remove_all(at);
}

}  // namespace busbar::spawner
