// Takes the place of the C compiler: tries what native code in it could do and prints the result of
// each attempt on one line, 0 or an errno. Then it fails, so that the output becomes an error text.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void report(const char* name, long result) {
  printf("%s %d\n", name, result < 0 ? errno : 0);
}

static long write_file(const char* path) {
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  if (fd >= 0) close(fd);
  return fd;
}

static long execute(const char* path) {
  int status, failed[2];
  if (pipe2(failed, O_CLOEXEC)) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    close(1);
    execl(path, path, "--version", (char*)NULL);
    (void)!write(failed[1], &errno, sizeof errno);
    _exit(1);
  }
  close(failed[1]);
  int error = 0;
  long n = read(failed[0], &error, sizeof error);
  waitpid(pid, &status, 0);
  errno = error;
  return n > 0 ? -1 : 0;
}

static void in_temporary_folder(const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("TMPDIR"), name);
  report("own folder", write_file(path));
}

int main(void) {
  const char* cache = getenv("BUSBAR_SOFTGPU_CACHE");
  char path[4096];
  in_temporary_folder("x");
  snprintf(path, sizeof path, "%s/x.so", cache);
  report("cache", write_file(path));
  snprintf(path, sizeof path, "%s/../x", cache);
  report("beside cache", write_file(path));
  report("temporary files", write_file("/tmp/busbar-hostile-compiler"));
  report("shell", execute("/bin/sh"));
  report("assembler", execute("/usr/bin/as"));
  report("inet", socket(AF_INET, SOCK_STREAM, 0));
  report("unix", socket(AF_UNIX, SOCK_STREAM, 0));
  report("kill parent", kill(getppid(), SIGKILL));
  report("leave group", setsid());
  report("ptrace", syscall(SYS_ptrace, 16, getppid(), 0, 0));
  report("read memory", syscall(SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0));
  report("user namespace", unshare(CLONE_NEWUSER));
  report("mount", syscall(SYS_mount, 0, 0, 0, 0, 0));
  report("io_uring", syscall(SYS_io_uring_setup, 1, 0));
  report("keyring", syscall(SYS_keyctl, 0, 0));
  report("bpf", syscall(SYS_bpf, 0, 0, 0));
  struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &more);
  void* huge =
      mmap(NULL, 64ull << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  report("memory", huge == MAP_FAILED ? -1 : 0);
  fflush(stdout);
  return 1;
}
