#include "null_driver/attacks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <iomanip>
#include <map>
#include <sstream>

namespace {
int result_of(long value) {
  return value < 0 ? errno : 0;
}

int read_file(const std::string& path) {
  char byte;
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int result = result_of(read(fd, &byte, 1));
  close(fd);
  return result;
}

int write_file(const std::string& path) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

// A page of this process exists at the same address in its siblings: they run the same program.
int read_memory(const std::string& pid) {
  int fd = open(("/proc/" + pid + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

int connect_to(const std::string& path) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::strncpy(a.sun_path, path.c_str(), sizeof a.sun_path - 1);
  auto length = (socklen_t)(offsetof(sockaddr_un, sun_path) + path.size());
  if (path[0] == '@') a.sun_path[0] = 0;  // an abstract name
  int result = result_of(connect(fd, (sockaddr*)&a, length));
  close(fd);
  return result;
}

// Lets input on a socket send a signal to another process.
int signal_by_input(const std::string& pid) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return errno;
  if (fcntl(pair[0], F_SETSIG, SIGKILL) || fcntl(pair[0], F_SETOWN, std::stoi(pid)) ||
      fcntl(pair[0], F_SETFL, O_ASYNC))
    return errno;
  return result_of(write(pair[1], "", 1));
}

// "call NUMBER ARGUMENT..."
int call_system(const std::string& text) {
  std::istringstream words(text);
  long number = -1, argument[6] = {};
  words >> std::setbase(0) >> number;
  for (long& a : argument) words >> a;
  return result_of(syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                           argument[5]));
}

// 32-bit calls have other numbers: 20 is getpid.
int call_system_of_32_bits(const std::string&) {
  int result = 20;
  __asm__ volatile("int $0x80" : "+a"(result)::"memory");
  return result > 0 ? 0 : -result;
}

int pause_for_ever(const std::string&) {
  return result_of(poll(nullptr, 0, -1));
}

// Uses host memory without end.
int use_memory(const std::string&) {
  constexpr size_t kBytes = 16 << 20;
  for (;;) {
    void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return errno;
    std::memset(p, 1, kBytes);
  }
}

void* sleep_for_ever(void*) {
  poll(nullptr, 0, -1);
  return nullptr;
}

// Starts threads until the system refuses one. They end with the session.
int use_threads(const std::string& most) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
  for (int i = 0; i < std::stoi(most); ++i)
    if (pthread_t thread; int error = pthread_create(&thread, &small, sleep_for_ever, nullptr))
      return error;
  return 0;
}

const std::map<std::string, int (*)(const std::string&)> kAttacks = {
    {"read", read_file},
    {"write", write_file},
    {"memory", read_memory},
    {"connect", connect_to},
    {"signal_by_input", signal_by_input},
    {"call", call_system},
    {"call32", call_system_of_32_bits},
    {"pause", pause_for_ever},
    {"use_memory", use_memory},
    {"use_threads", use_threads},
};
}  // namespace

int run_attack(const std::string& command) {
  size_t space = command.find(' ');
  auto attack = kAttacks.find(command.substr(0, space));
  if (attack == kAttacks.end()) return EINVAL;
  return attack->second(space == std::string::npos ? "" : command.substr(space + 1));
}
