#include "null_driver/file_attacks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace {
namespace fs = std::filesystem;

// With O_NONBLOCK a FIFO or device does not block.
bool can_write(const std::string& path) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

// Compares ends of paths.
bool is_listed(const std::string& path, const std::string& list) {
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');)
    if (path.ends_with("/" + name)) return true;
  return false;
}
}  // namespace

int put_text(const std::string& text) {
  size_t space = text.find(' ');
  std::string path = text.substr(0, space), content = text.substr(space + 1);
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int result = write(fd, content.data(), content.size()) < 0 ? errno : 0;
  close(fd);
  return result;
}

int make_folder(const std::string& path) {
  return mkdir(path.c_str(), 0700) ? errno : 0;
}

int hide_file(const std::string& path) {
  constexpr mode_t kEnterAndWrite = 0300;
  if (mkdir(path.c_str(), kEnterAndWrite)) return errno;
  std::string mebibyte(1 << 20, 'x');
  int fd = open((path + "/x").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int result = write(fd, mebibyte.data(), mebibyte.size()) < 0 ? errno : 0;
  close(fd);
  return result;
}

int write_below(const std::string& text) {
  std::istringstream words(text);
  std::string folder, harmless;
  words >> folder >> harmless;
  std::error_code error;
  int result = EACCES;
  constexpr auto kOptions = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(folder, kOptions, error), end; !error && entry != end;
       entry.increment(error)) {
    bool is_link = entry->is_symlink(error);  // those of a process lead to what it has open
    if (is_link || is_listed(entry->path(), harmless) || !can_write(entry->path())) continue;
    std::fprintf(stderr, "can be written: %s\n", entry->path().c_str());
    result = 0;
  }
  return error ? error.value() : result;
}
