#include "spawner/folders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

namespace busbar::spawner {

namespace {
constexpr int kFolder = O_DIRECTORY | O_CLOEXEC;

bool belongs_to_owner_of(int fd, const std::string& path) {
  struct stat found, expected;
  return fstat(fd, &found) == 0 && stat(path.c_str(), &expected) == 0 &&
         found.st_uid == expected.st_uid;
}
}  // namespace

bool make_public_folder(const std::string& path) {
  mkdir(path.c_str(), 0700);
  int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | kFolder);
  if (fd < 0) return false;
  struct stat st;
  bool own = fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
             fchmod(fd, 0755) == 0;
  close(fd);
  return own;
}

int open_below(const std::string& folder, const std::string& path, const std::string& owner) {
  int fd = open(folder.c_str(), O_PATH | kFolder);
  std::istringstream names(path);
  for (std::string name; fd >= 0 && std::getline(names, name, '/');) {
    mkdirat(fd, name.c_str(), 0700);
    int next = openat(fd, name.c_str(), O_PATH | O_NOFOLLOW | kFolder);
    close(fd);
    fd = next;
  }
  if (fd < 0 || belongs_to_owner_of(fd, owner)) return fd;
  close(fd);
  return -1;
}

}  // namespace busbar::spawner
