#include "softgpu/jit/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <vector>

#include "control/system_call_filter.h"
#include "softgpu/jit/limits.h"

namespace softgpu::jit {

using busbar::control::install_filter;
using busbar::control::SystemCallFilter;

namespace {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // they need address space, files and other calls
#else
constexpr bool kSanitized = false;
#endif

// Calls of softgpu-compiler, the C compiler, the assembler and the linker, with any arguments. None
// reaches a network, another process's memory, or makes namespaces or mounts.
const int kPermitted[] = {
    // the session's connection, files and pipes
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_recvfrom, SYS_sendto,
    SYS_open, SYS_openat, SYS_close, SYS_close_range, SYS_lseek, SYS_fstat, SYS_newfstatat,
    SYS_stat, SYS_lstat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_access, SYS_faccessat,
    SYS_faccessat2, SYS_readlink, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_mkdir,
    SYS_mkdirat, SYS_rmdir, SYS_unlink, SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2,
    SYS_chmod, SYS_fchmod, SYS_fchmodat, SYS_umask, SYS_ftruncate, SYS_fallocate, SYS_fadvise64,
    SYS_fsync, SYS_utimensat, SYS_copy_file_range, SYS_sendfile, SYS_flock, SYS_dup, SYS_dup2,
    SYS_dup3, SYS_pipe, SYS_pipe2, SYS_fcntl, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6,
    // memory
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk,
    // processes of this group and their limits
    SYS_fork, SYS_vfork, SYS_execve, SYS_wait4, SYS_waitid, SYS_exit, SYS_exit_group, SYS_kill,
    SYS_tgkill, SYS_pidfd_open, SYS_setpgid, SYS_getpgrp, SYS_getpid, SYS_getppid, SYS_gettid,
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_set_tid_address, SYS_set_robust_list,
    SYS_rseq, SYS_futex, SYS_arch_prctl, SYS_prctl, SYS_seccomp, SYS_setrlimit, SYS_getrlimit,
    SYS_prlimit64, SYS_getrusage, SYS_times, SYS_sysinfo, SYS_uname, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_landlock_create_ruleset, SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
    // signals and time
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_restart_syscall,
    SYS_alarm, SYS_setitimer, SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime,
    SYS_clock_getres, SYS_gettimeofday, SYS_time, SYS_getrandom};

void limit_resource(__rlimit_resource resource, uint64_t value) {
  rlimit r{value, value};
  setrlimit(resource, &r);
}

// Returns the folders and programs that the C compiler executes.
std::vector<std::string> programs_of(const std::string& compiler) {
  char real[PATH_MAX];
  std::string path = realpath(compiler.c_str(), real) ? real : compiler;
  std::string folder = path.substr(0, path.rfind('/'));
  std::string prefix = folder.substr(0, folder.rfind('/'));
  std::vector<std::string> all = {
      path,           prefix + "/lib/gcc", prefix + "/libexec/gcc",
      "/usr/lib/gcc", "/usr/libexec/gcc",  "/lib64/ld-linux-x86-64.so.2"};
  for (auto& bin : {folder, std::string("/usr/bin")})
    for (auto* name : {"as", "ld", "ld.bfd", "ld.gold", "ld.lld"}) all.push_back(bin + "/" + name);
  return all;
}

// A path that does not exist is skipped.
void permit_beneath(int rules, const std::string& path, uint64_t access) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0) return;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(rule.parent_fd);
}

// Without Landlock the mounts of the cage are the only limit.
void restrict_files(const std::string& program, const std::string& folder) {
  constexpr uint64_t kExecute = LANDLOCK_ACCESS_FS_EXECUTE;
  constexpr uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                              LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                              LANDLOCK_ACCESS_FS_MAKE_DIR;
  landlock_ruleset_attr attr{};
  attr.handled_access_fs = kExecute | kWrite | LANDLOCK_ACCESS_FS_MAKE_SYM |
                           LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SOCK;
  int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
  if (rules < 0) return;
  for (auto& path : programs_of(program)) permit_beneath(rules, path, kExecute);
  permit_beneath(rules, folder, kWrite);
  permit_beneath(rules, "/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE);
  syscall(SYS_landlock_restrict_self, rules, 0);
  close(rules);
}
}  // namespace

bool confine_compiler() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return false;
  // 1 byte: 0 does not stop a core dump that goes to a program of the system.
  limit_resource(RLIMIT_CORE, 1);
  limit_resource(RLIMIT_NOFILE, 256);
  limit_resource(RLIMIT_FSIZE, kOutputBytes);
  if (kSanitized) return true;
  // An unknown call of another C library or C compiler fails, as on an old kernel.
  SystemCallFilter f(SECCOMP_RET_ERRNO | ENOSYS);
  for (int call : kPermitted) f.permit(call);
  constexpr unsigned kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  f.permit_masked(SYS_clone, 0, kNamespaces, {0});
  f.permit_values(SYS_socketpair, 0, {AF_UNIX});
  f.refuse(SYS_ioctl, ENOTTY);  // the C library asks whether a file is a terminal
  return install_filter(f.take(), 0) == 0;
}

bool confine_translator() {
  if (kSanitized) return true;
  limit_resource(RLIMIT_AS, limit("BUSBAR_SOFTGPU_COMPILE_BYTES", kTranslatorBytes));
  limit_resource(RLIMIT_FSIZE, 0);
  SystemCallFilter f(SECCOMP_RET_KILL_PROCESS);
  for (int call :
       {SYS_recvfrom, SYS_sendto, SYS_poll, SYS_write, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise,
        SYS_futex, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall,
        SYS_clock_gettime, SYS_getrandom, SYS_rt_sigprocmask, SYS_gettid, SYS_getpid, SYS_close})
    f.permit(call);
  f.permit_values(SYS_tgkill, 0, {(unsigned)getpid()});  // abort()
  f.permit_masked(SYS_mmap, 2, PROT_EXEC, {0});
  f.permit_masked(SYS_mprotect, 2, PROT_EXEC, {0});
  f.refuse(SYS_fstat, EBADF);  // the C library, before it writes an error
  f.refuse(SYS_newfstatat, EBADF);
  return install_filter(f.take(), 0) == 0;
}

bool confine_c_compiler(const std::string& program, const std::string& folder) {
  limit_resource(RLIMIT_CPU, kCCompilerCpuSeconds);
  if (kSanitized) return true;
  limit_resource(RLIMIT_AS, limit("BUSBAR_SOFTGPU_COMPILE_BYTES", kCCompilerBytes));
  restrict_files(program, folder);
  // It stays in its process group, which ends with the compilation.
  SystemCallFilter f(SECCOMP_RET_ALLOW);
  for (int call : {SYS_kill, SYS_tgkill, SYS_setpgid, SYS_socketpair, SYS_pidfd_open})
    f.refuse(call, EPERM);
  return install_filter(f.take(), 0) == 0;
}

}  // namespace softgpu::jit
