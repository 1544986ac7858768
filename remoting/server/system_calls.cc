#include "server/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/system_call_filter.h"

namespace busbar::server {

using control::SystemCallFilter;

namespace {
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
    SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_ftruncate, SYS_mincore,
    SYS_membarrier,
    // files: what they reach is decided by the mounts of the cage
    SYS_openat, SYS_open, SYS_close, SYS_fstat, SYS_newfstatat, SYS_stat, SYS_lstat, SYS_statx,
    SYS_lseek, SYS_pread64, SYS_pwrite64, SYS_access, SYS_faccessat, SYS_faccessat2, SYS_readlink,
    SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_rename, SYS_unlink, SYS_utimensat, SYS_flock,
    SYS_dup, SYS_dup2, SYS_dup3, SYS_pipe2, SYS_uname,
    // threads of this process
    SYS_set_robust_list, SYS_rseq, SYS_gettid, SYS_getpid, SYS_exit, SYS_exit_group,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_sched_getaffinity,
    SYS_getcpu, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrandom, SYS_getrusage,
    SYS_sysinfo};

void add_threads(SystemCallFilter& f) {
  constexpr unsigned kThread = CLONE_VM | CLONE_THREAD;
  constexpr unsigned kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  f.permit_masked(SYS_clone, 0, kThread | kNamespaces, {kThread});
  f.refuse(SYS_clone3, ENOSYS);  // its flags lie in memory; the C library then calls clone
  f.permit_values(SYS_tgkill, 0, {(unsigned)getpid()});
  f.permit_values(SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME, kSetVma});
  f.permit_values(SYS_prlimit64, 0, {0});
}

// Without connect(): on the client's TCP connection it would reach the network of the machine. The
// C library calls it, for example to find the name of a user.
void add_sockets(SystemCallFilter& f) {
  f.permit_values(SYS_socket, 0, {AF_UNIX});
  f.permit_values(SYS_socketpair, 0, {AF_UNIX});
  f.refuse(SYS_connect, EACCES);
}

// Without pages of HugeTLB, which the machine has reserved for other programs.
void add_memory(SystemCallFilter& f) {
  f.permit_masked(SYS_mmap, 3, MAP_HUGETLB, {0});
  f.permit_masked(SYS_memfd_create, 1, MFD_HUGETLB, {0});
}

// Without F_SETOWN and F_SETSIG, which send any signal to any process of the same user.
void add_descriptors(SystemCallFilter& f) {
  f.permit_values(SYS_fcntl, 1,
                  {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GET_SEALS, F_ADD_SEALS});
}

// The ioctl requests of NVIDIA's driver: type 'F', and the numbers of its memory manager, which
// have no type.
void add_nvidia_ioctls(SystemCallFilter& f) {
  constexpr unsigned kTypeBits = 0xff00, kNvidiaType = 'F' << 8, kNoType = 0;
  f.permit_masked(SYS_ioctl, 1, kTypeBits, {kNvidiaType, kNoType});
}

// The first context listens at an abstract socket, which is in the network namespace of the cage.
// The driver also tries to make links in /dev/char, which a cage does not have.
void add_nvidia_calls(SystemCallFilter& f) {
  add_nvidia_ioctls(f);
  for (int call : {SYS_sched_setaffinity, SYS_mlock, SYS_munlock, SYS_set_mempolicy, SYS_mbind,
                   SYS_get_mempolicy, SYS_pipe, SYS_fadvise64, SYS_fallocate, SYS_mkdir, SYS_bind,
                   SYS_listen, SYS_sched_get_priority_max, SYS_sched_get_priority_min})
    f.permit(call);
  f.refuse(SYS_symlink, EACCES);
}
}  // namespace

std::vector<sock_filter> session_filter(DriverKind kind, unsigned otherwise) {
  SystemCallFilter f(otherwise);
  for (int call : kPermitted) f.permit(call);
  add_memory(f);
  add_threads(f);
  add_descriptors(f);
  add_sockets(f);
  if (kind == DriverKind::nvidia) {
    add_nvidia_calls(f);
  } else {
    f.refuse(SYS_ioctl, ENOTTY);  // the C library asks whether a file is a terminal
  }
  return f.take();
}

}  // namespace busbar::server
