#include "spawner/driver_path.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace busbar::spawner {

namespace {
std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

[[noreturn]] void report_path(const std::string& name, int to) {
  void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  link_map* loaded = nullptr;
  if (library && dlinfo(library, RTLD_DI_LINKMAP, (void*)&loaded) == 0)
    (void)!write(to, loaded->l_name, std::strlen(loaded->l_name));
  _exit(0);
}
}  // namespace

std::string find_library(const std::string& name) {
  int pipe[2];
  if (name.find('/') != std::string::npos || pipe2(pipe, O_CLOEXEC)) return name;
  pid_t pid = fork();
  if (pid == 0) report_path(name, pipe[1]);
  close(pipe[1]);
  char path[PATH_MAX];
  ssize_t n = pid > 0 ? read(pipe[0], path, sizeof path) : 0;
  close(pipe[0]);
  if (pid > 0) waitpid(pid, nullptr, 0);
  return n > 0 && path[0] == '/' ? std::string(path, (size_t)n) : name;
}

std::vector<std::string> folders_of(const std::string& library) {
  if (library.empty() || library[0] != '/') return {};
  std::vector<std::string> folders = {folder_of(library)};
  char file[PATH_MAX];
  if (realpath(library.c_str(), file) && folder_of(file) != folders[0])
    folders.push_back(folder_of(file));
  return folders;
}

}  // namespace busbar::spawner
