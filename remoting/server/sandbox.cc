#include "server/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace busbar::server {

namespace {
constexpr unsigned kFirstX32Call = 0x40000000;
constexpr rlim_t kMaxFiles = 4096;

// System calls that a session never needs once its driver is initialised; they fail with EPERM.
const int kDenied[] = {SYS_execve,
                       SYS_execveat,
                       SYS_ptrace,
                       SYS_process_vm_readv,
                       SYS_process_vm_writev,
                       SYS_mount,
                       SYS_umount2,
                       SYS_pivot_root,
                       SYS_chroot,
                       SYS_setns,
                       SYS_unshare,
                       SYS_init_module,
                       SYS_finit_module,
                       SYS_delete_module,
                       SYS_kexec_load,
                       SYS_kexec_file_load,
                       SYS_bpf,
                       SYS_perf_event_open,
                       SYS_keyctl,
                       SYS_add_key,
                       SYS_request_key,
                       SYS_reboot,
                       SYS_swapon,
                       SYS_swapoff,
                       SYS_settimeofday,
                       SYS_clock_settime,
                       SYS_acct,
                       SYS_setuid,
                       SYS_setgid,
                       SYS_setresuid,
                       SYS_setresgid,
                       SYS_userfaultfd,
                       SYS_open_by_handle_at};

bool install_filter() {
  std::vector<sock_filter> code = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      // The x32 variants have other numbers and would evade the list.
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstX32Call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  for (int nr : kDenied) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{(unsigned short)code.size(), code.data()};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}
}  // namespace

Isolation enter_sandbox() {
  Isolation i;
  i.no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  rlimit core{0, 0}, files{kMaxFiles, kMaxFiles};
  i.resource_limits = setrlimit(RLIMIT_CORE, &core) == 0 && setrlimit(RLIMIT_NOFILE, &files) == 0;
  i.seccomp = install_filter();
  return i;
}

}  // namespace busbar::server
