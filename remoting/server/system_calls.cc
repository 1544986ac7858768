#include "server/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace busbar::server {

namespace {
constexpr unsigned kFirstX32Call = 0x40000000;
constexpr int kSetVma = 0x53564d41;  // PR_SET_VMA: glibc names its mappings

// Calls with any arguments, the most frequent ones first. The list was made from the calls of the
// conformance programs. None of them reaches another process or creates an object of the system.
const int kPermitted[] = {
    // waiting and time
    SYS_futex, SYS_clock_gettime, SYS_poll, SYS_ppoll, SYS_epoll_wait, SYS_epoll_pwait,
    SYS_epoll_ctl, SYS_epoll_create1, SYS_eventfd2, SYS_clock_nanosleep, SYS_nanosleep,
    SYS_clock_getres, SYS_gettimeofday, SYS_restart_syscall, SYS_sched_yield,
    // the client's connection, and connections that the launcher makes
    SYS_recvfrom, SYS_sendto, SYS_recvmsg, SYS_sendmsg, SYS_read, SYS_write, SYS_readv, SYS_writev,
    SYS_accept4, SYS_shutdown, SYS_getsockopt, SYS_setsockopt, SYS_getpeername, SYS_getsockname,
    // memory
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_memfd_create,
    SYS_ftruncate, SYS_mincore, SYS_membarrier,
    // files: what they reach is decided by the mounts of the cage
    SYS_openat, SYS_open, SYS_close, SYS_fstat, SYS_newfstatat, SYS_stat, SYS_lstat, SYS_statx,
    SYS_lseek, SYS_pread64, SYS_pwrite64, SYS_access, SYS_faccessat, SYS_faccessat2, SYS_readlink,
    SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_rename, SYS_unlink, SYS_flock, SYS_dup,
    SYS_dup2, SYS_dup3, SYS_pipe2, SYS_uname,
    // threads of this process
    SYS_set_robust_list, SYS_rseq, SYS_gettid, SYS_getpid, SYS_exit, SYS_exit_group,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_sched_getaffinity,
    SYS_getcpu, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrandom, SYS_getrusage,
    SYS_sysinfo};

class Filter {
 public:
  explicit Filter(unsigned otherwise) : otherwise_(otherwise) {
    load(offsetof(seccomp_data, arch));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    finish(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
    // The x32 variants have other numbers.
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstX32Call, 0, 1));
    finish(SECCOMP_RET_KILL_PROCESS);
  }

  void permit(int call) { answer(call, SECCOMP_RET_ALLOW); }
  void refuse(int call, int error) { answer(call, SECCOMP_RET_ERRNO | (unsigned)error); }
  // Permits a call if its argument is one of the values.
  void permit_values(int call, unsigned argument, const std::vector<unsigned>& values) {
    permit_masked(call, argument, ~0u, values);
  }
  // Permits a call if the bits of `mask` in its argument are one of the values.
  void permit_masked(int call, unsigned argument, unsigned mask,
                     const std::vector<unsigned>& values) {
    size_t n = values.size();
    // load, mask, comparisons, denial, permission
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, (uint8_t)(n + 4)));
    load(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
    code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    for (size_t i = 0; i < n; ++i)
      code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, values[i], (uint8_t)(n - i), 0));
    finish(otherwise_);
    finish(SECCOMP_RET_ALLOW);
  }
  std::vector<sock_filter> take() {
    finish(otherwise_);
    return std::move(code_);
  }

 private:
  void load(size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
  }
  void finish(unsigned action) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
  void answer(int call, unsigned action) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1));
    finish(action);
  }
  unsigned otherwise_;
  std::vector<sock_filter> code_;
};

void add_threads(Filter& f) {
  constexpr unsigned kThread = CLONE_VM | CLONE_THREAD;
  constexpr unsigned kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  f.permit_masked(SYS_clone, 0, kThread | kNamespaces, {kThread});
  f.refuse(SYS_clone3, ENOSYS);  // its flags lie in memory; the C library then calls clone
  f.permit_values(SYS_tgkill, 0, {(unsigned)getpid()});
  f.permit_values(SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME, kSetVma});
  f.permit_values(SYS_prlimit64, 0, {0});
}

// Without F_SETOWN and F_SETSIG, which send any signal to any process of the same user.
void add_descriptors(Filter& f) {
  f.permit_values(SYS_fcntl, 1,
                  {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GET_SEALS, F_ADD_SEALS,
                   F_OFD_GETLK, F_OFD_SETLK});
}

// The ioctl requests of NVIDIA's driver: type 'F', and the numbers of its memory manager, which
// have no type. This list has not been run against a GPU.
void add_nvidia_ioctls(Filter& f) {
  constexpr unsigned kTypeBits = 0xff00, kNvidiaType = 'F' << 8, kNoType = 0;
  f.permit_masked(SYS_ioctl, 1, kTypeBits, {kNvidiaType, kNoType});
}
}  // namespace

std::vector<sock_filter> session_filter(DriverKind kind, unsigned otherwise) {
  Filter f(otherwise);
  for (int call : kPermitted) f.permit(call);
  add_threads(f);
  add_descriptors(f);
  f.permit_values(SYS_socket, 0, {AF_UNIX});
  f.permit(SYS_connect);
  if (kind == DriverKind::nvidia) {
    add_nvidia_ioctls(f);
    for (int call :
         {SYS_sched_setaffinity, SYS_mlock, SYS_munlock, SYS_set_mempolicy, SYS_mbind,
          SYS_get_mempolicy, SYS_pipe, SYS_socketpair, SYS_fadvise64, SYS_fallocate, SYS_mkdir})
      f.permit(call);
  } else {
    f.refuse(SYS_ioctl, ENOTTY);  // the C library asks whether a file is a terminal
  }
  return f.take();
}

}  // namespace busbar::server
