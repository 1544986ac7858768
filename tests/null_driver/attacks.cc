#include "null_driver/attacks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "null_driver/file_attacks.h"
#include "null_driver/socket_attacks.h"

namespace {
constexpr int kMostDescriptors = 256;

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

// "print COUNT": writes lines to the log that look like the launcher's, and control characters.
int print(const std::string& count) {
  constexpr char kLine[] =
      "2026-01-01T00:00:00.000Z launcher: session closed: forged\n\x1b[2J\r{\"level\": 1}\n";
  for (int i = 0; i < std::stoi(count); ++i) (void)!write(STDERR_FILENO, kLine, sizeof kLine - 1);
  return 0;
}

int set_times(const std::string& path) {
  return result_of(utimensat(AT_FDCWD, path.c_str(), nullptr, 0));
}

int remove_file(const std::string& path) {
  return result_of(unlink(path.c_str()));
}

// "fill PATH MEBIBYTES": writes files PATH.0, PATH.1, ... of one MiB each.
int fill(const std::string& text) {
  std::istringstream words(text);
  std::string path, mebibyte(1 << 20, 'x');
  int count = 0;
  words >> path >> count;
  for (int i = 0; i < count; ++i) {
    int fd = open((path + "." + std::to_string(i)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    int result = result_of(write(fd, mebibyte.data(), mebibyte.size()));
    close(fd);
    if (result) return result;
  }
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

// Uses host memory: "MEBIBYTES".
int use_memory(const std::string& mebibytes) {
  size_t bytes = (size_t)std::stoi(mebibytes) << 20;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return errno;
  std::memset(p, 1, bytes);
  munmap(p, bytes);
  return 0;
}

// Reads the memory of another process: "PID ADDRESS".
int read_process(const std::string& text) {
  std::istringstream words(text);
  pid_t pid = 0;
  uintptr_t address = 0;
  words >> pid >> std::setbase(0) >> address;
  char byte;
  iovec own{&byte, 1}, other{(void*)address, 1};
  return result_of(process_vm_readv(pid, &own, 1, &other, 1, 0));
}

// Connects to a port of this machine.
int connect_tcp(const std::string& port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons((uint16_t)std::stoi(port));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int result = result_of(connect(fd, (sockaddr*)&a, sizeof a));
  close(fd);
  return result;
}

bool is_tcp(int fd) {
  int domain = 0, type = 0;
  socklen_t n = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain != AF_UNIX &&
         getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM;
}

// Makes the client's TCP connection, which belongs to the network of the machine, one to a port of
// this machine. The session loses its client, so the other end of the new connection tells whether
// it worked.
int reconnect_client(const std::string& port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons((uint16_t)std::stoi(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr nowhere{};
  nowhere.sa_family = AF_UNSPEC;
  int result = ENOENT;
  for (int fd = 0; fd < kMostDescriptors && result; ++fd) {
    if (!is_tcp(fd)) continue;
    (void)!connect(fd, &nowhere, sizeof nowhere);
    result = result_of(connect(fd, (sockaddr*)&to, sizeof to));
    // It connects, too, where a rule against connect() is in force.
    if (result) result = result_of(sendto(fd, "x", 1, MSG_FASTOPEN, (sockaddr*)&to, sizeof to));
  }
  return result;
}

// Uses a page that the machine has reserved for other programs. Works if the machine has none, too:
// then only the number is in the way.
int use_huge_page(const std::string&) {
  constexpr size_t kBytes = 2 << 20;
  void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
                 -1, 0);
  if (p == MAP_FAILED) return errno == ENOMEM ? 0 : errno;
  munmap(p, kBytes);
  return 0;
}

// Maps a page of a memory file of that name for reading, as the session server maps the pages of
// the launcher.
int map_page(const std::string& name) {
  int fd = memfd_create(name.c_str(), MFD_CLOEXEC);
  void* at = ftruncate(fd, 4096) ? MAP_FAILED : mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  int result = at == MAP_FAILED ? errno : 0;
  close(fd);
  return result;
}

// Makes the page of a memory file of that name writable, and writes it.
int write_page(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:" + name) == std::string::npos) continue;
    auto* at = (volatile char*)std::stoull(line, nullptr, 16);
    if (mprotect((void*)at, 4096, PROT_READ | PROT_WRITE)) return errno;
    at[0] = at[0];
    return 0;
  }
  return ENOENT;
}

// Searches the environment for a variable.
int find_variable(const std::string& name) {
  std::ifstream file("/proc/self/environ");
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry.starts_with(name + "=")) return 0;
  return ENOENT;
}

int find_listener() {
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    int listens = 0;
    socklen_t n = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 && listens) return fd;
  }
  return -1;
}

// Answers the launcher's requests for the status in place of the session server, with bytes of
// ones. Takes the control socket away from it.
int lie_about_status(const std::string&) {
  struct {
    uint32_t bytes, kind;
    uint64_t values[3];
  } reply{sizeof reply.values, 100, {}};
  std::memset(reply.values, 0xff, sizeof reply.values);
  int listener = find_listener(), taken = dup(listener);
  if (taken < 0 || dup2(STDIN_FILENO, listener) < 0) return errno;
  std::thread([taken, reply] {
    for (int fd; (fd = accept4(taken, nullptr, nullptr, SOCK_CLOEXEC)) >= 0 || errno == EINTR;)
      (void)!send(fd, &reply, sizeof reply, MSG_NOSIGNAL);  // the socket stays open
  }).detach();
  return 0;
}

// Sends COUNT times standard input as a descriptor.
int send_input(int socket, int count) {
  std::vector<int> attached((size_t)count, STDIN_FILENO);
  std::vector<char> room(CMSG_SPACE(attached.size() * sizeof(int)));
  char byte = 0;
  iovec io{&byte, 1};
  msghdr m{nullptr, 0, &io, 1, room.data(), room.size(), 0};
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(attached.size() * sizeof(int));
  std::memcpy(CMSG_DATA(c), attached.data(), attached.size() * sizeof(int));
  return result_of(sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL));
}

// Sends COUNT descriptors to whatever is behind each socket.
int send_descriptors(const std::string& count) {
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    int domain = 0;
    socklen_t n = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) || domain != AF_UNIX) continue;
    for (int i = 0; i < std::stoi(count); ++i) send_input(fd, 1);
  }
  return 0;
}

// Keeps as many descriptors as its user may have on their way in sockets.
int keep_descriptors_on_their_way(const std::string&) {
  constexpr int kMostInMessage = 253;
  int pair[2];
  for (int result = 0;;) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return errno;
    while ((result = send_input(pair[0], kMostInMessage)) == 0) continue;
    if (result == ETOOMANYREFS) return 0;
    if (result != EAGAIN) return result;  // this socket is full
  }
}

// Waits until a file exists.
int wait_for_file(const std::string& path) {
  while (access(path.c_str(), F_OK)) poll(nullptr, 0, 10);
  return 0;
}

int mount_at(const std::string& folder) {
  return result_of(mount("attack", folder.c_str(), "tmpfs", 0, nullptr));
}

// Starts processes that end at once.
int fork_children(const std::string& count) {
  for (int i = 0; i < std::stoi(count); ++i) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    if (pid < 0) return errno;
  }
  return 0;
}

// Opens a path of the machine below every descriptor, also by way of /proc.
int read_below_descriptors(const std::string& path) {
  int result = ENOENT;
  for (int fd = 0; fd < kMostDescriptors && result; ++fd)
    for (auto& start : {std::string(), "/proc/self/fd/" + std::to_string(fd)}) {
      int found =
          openat(fd, (start + "/../../../../../.." + path).c_str() + (start.empty() ? 1 : 0),
                 O_RDONLY | O_CLOEXEC);
      if (found < 0) continue;
      result = 0;
      close(found);
    }
  return result;
}

// Searches the inherited descriptors for a file or folder of the machine.
int find_file_descriptor(const std::string&) {
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    char path[PATH_MAX] = {};
    struct stat st;
    if (fstat(fd, &st) || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) continue;
    if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1) < 0 ||
        std::strncmp(path, "/memfd:", 7))
      return 0;
  }
  return ENOENT;
}

// Empties the file behind standard error.
int empty_log(const std::string&) {
  return result_of(ftruncate(STDERR_FILENO, 0));
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

// Lets the compiler of the session compile the kernel of that name, and prints its answer. Returns
// its status (remoting/softgpu/jit/messages.h).
int compile_kernel(const std::string& name) {
  constexpr int kCompiler = 4;
  constexpr uint64_t kCompile = 2;
  const std::string ptx =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
  std::string body;
  auto add = [&](uint64_t value) {
    body.append((const char*)&value, sizeof value);
  };
  add(kCompile);
  add(2 * sizeof(uint64_t) + name.size() + ptx.size());
  add(name.size());
  body += name;
  add(ptx.size());
  body += ptx;
  uint64_t head[2];
  if (write(kCompiler, body.data(), body.size()) != (ssize_t)body.size() ||
      recv(kCompiler, head, sizeof head, MSG_WAITALL) != (ssize_t)sizeof head)
    return errno ? errno : EPIPE;
  std::string answer(head[1], 0);
  if (recv(kCompiler, answer.data(), answer.size(), MSG_WAITALL) < 0) return errno;
  std::fprintf(stderr, "compiler: %s\n", answer.c_str());
  return (int)head[0];
}

const std::map<std::string, int (*)(const std::string&)> kAttacks = {
    {"read", read_file},
    {"write", write_file},
    {"print", print},
    {"set_times", set_times},
    {"remove", remove_file},
    {"fill", fill},
    {"memory", read_memory},
    {"connect", connect_to},
    {"signal_by_input", signal_by_input},
    {"call", call_system},
    {"call32", call_system_of_32_bits},
    {"pause", pause_for_ever},
    {"use_memory", use_memory},
    {"read_process", read_process},
    {"connect_tcp", connect_tcp},
    {"mount", mount_at},
    {"fork", fork_children},
    {"read_below_descriptors", read_below_descriptors},
    {"find_file_descriptor", find_file_descriptor},
    {"empty_log", empty_log},
    {"use_threads", use_threads},
    {"compile", compile_kernel},
    {"reconnect_client", reconnect_client},
    {"use_huge_page", use_huge_page},
    {"map_page", map_page},
    {"write_page", write_page},
    {"find_variable", find_variable},
    {"lie_about_status", lie_about_status},
    {"send_descriptors", send_descriptors},
    {"keep_descriptors_on_their_way", keep_descriptors_on_their_way},
    {"wait", wait_for_file},
    {"put", put_text},
    {"make_folder", make_folder},
    {"hide", hide_file},
    {"write_below", write_below},
    {"bind", listen_at},
    {"flood", flood_with_sockets},
    {"take", take_name},
    {"send", send_to},
    {"occupy", occupy_port},
};
}  // namespace

int run_attack(const std::string& command) {
  size_t space = command.find(' ');
  auto attack = kAttacks.find(command.substr(0, space));
  if (attack == kAttacks.end()) return EINVAL;
  return attack->second(space == std::string::npos ? "" : command.substr(space + 1));
}
