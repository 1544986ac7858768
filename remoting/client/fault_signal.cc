#include "client/fault_signal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "client/fault_thread.h"
#include "transport/futex.h"

namespace busbar::client {

namespace {
// Each installation has a handler of its own, which passes faults on to the one that it replaced.
// A handler of the program that passes faults on reaches the one before, and never itself.
constexpr size_t kInstallations = 16;
using SignalHandler = void (*)(int, siginfo_t*, void*);
std::array<struct sigaction, kInstallations> g_replaced;  // handlers of the program
std::atomic<size_t> g_installations{0};
int g_fault_pipe[2] = {-1, -1};  // carries addresses of FaultRequest
pid_t g_fault_process = 0;
std::atomic<uint64_t> g_fault_begin{~0ull}, g_fault_end{0};  // of all ranges, freed ones as well

struct FaultRequest {
  PageFault fault;
  std::atomic<uint32_t> done{0};
  bool resolved = false;
};

void serve_fault_requests(FaultResolver resolve) {
  FaultRequest* request;
  while (read_whole(g_fault_pipe[0], (void*)&request, sizeof request)) {
    request->resolved = resolve(request->fault);
    request->done.store(1);  // the request may be gone now; a wake needs its address only
    transport::futex_wake(request->done, transport::Scope::process);
  }
}

// The system call itself: write() is a cancellation point, and a thread that is cancelled in it
// would leave its request to the resolver, on a stack that is gone.
bool send_fault_request(const FaultRequest* request) {
  long n;
  do n = syscall(SYS_write, g_fault_pipe[1], &request, sizeof request);
  while (n < 0 && errno == EINTR);
  return n == (long)sizeof request;
}

// Async-signal-safe.
bool resolve_by_thread(const PageFault& fault) {
  FaultRequest request{fault};
  if (!send_fault_request(&request)) return false;
  while (!request.done.load())
    transport::futex_wait(request.done, 0, transport::milliseconds(1000),
                          transport::Scope::process);
  return request.resolved;
}

// A signal that was sent does not come again when the handler returns, unlike a fault.
void end_by_default(int number, const siginfo_t* info) {
  signal(number, SIG_DFL);
  if (info->si_code <= 0) raise(number);
}

void pass_on(const struct sigaction& to, int number, siginfo_t* info, void* context) {
  if (to.sa_flags & SA_SIGINFO) return to.sa_sigaction(number, info, context);
  if (to.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (to.sa_handler == SIG_DFL || to.sa_handler == SIG_IGN) return end_by_default(number, info);
  to.sa_handler(number);
}

// The innermost of our handlers that passes a fault on in this thread, and how many of them do.
struct FaultChain {
  const siginfo_t* info = nullptr;
  const void* frame = nullptr;
  size_t entries = 0;
};
// Initial-exec: the first use of another thread-local variable may allocate, in a handler.
constinit thread_local FaultChain t_fault_chain __attribute__((tls_model("initial-exec")));

// A program that installs its handler again, with ours as the one before, closes a circle: both
// would pass a crash on for ever. Without a circle each installation passes a fault on once. One
// entry more is permitted: a handler that leaves by longjmp leaves a mark, which a later fault with
// its information at the same place of the stack may find. A later fault in the same chain starts
// anew, as its frame is not below the marked one. The last line also keeps the call a call: a jump
// would give inner entries the same frame.
void pass_on_in_chain(const struct sigaction& to, int number, siginfo_t* info, void* context) {
  const FaultChain before = t_fault_chain;
  const void* frame = __builtin_frame_address(0);
  bool inner = before.info == info && (uint64_t)frame < (uint64_t)before.frame;
  size_t entries = inner ? before.entries + 1 : 1;
  if (entries > g_installations + 1) return end_by_default(number, info);
  t_fault_chain = {info, frame, entries};
  pass_on(to, number, info, context);
  t_fault_chain = before;
}

// Forked children have no managed pages, and their requests would reach the thread of the parent.
bool may_be_managed(const siginfo_t* info) {
  auto address = (uint64_t)info->si_addr;
  return info->si_code == SEGV_ACCERR && address >= g_fault_begin && address < g_fault_end &&
         getpid() == g_fault_process;
}

template <size_t Installation>
void on_fault_signal(int number, siginfo_t* info, void* context) {
  int saved = errno;
  bool write = ((ucontext_t*)context)->uc_mcontext.gregs[REG_ERR] & 2;
  bool resolved =
      may_be_managed(info) && resolve_by_thread({(uint64_t)info->si_addr, write, false});
  errno = saved;
  if (!resolved) pass_on_in_chain(g_replaced[Installation], number, info, context);
}

constexpr auto kFaultHandlers = []<size_t... I>(std::index_sequence<I...>) {
  return std::array<SignalHandler, sizeof...(I)>{on_fault_signal<I>...};
}(std::make_index_sequence<kInstallations>());

bool is_fault_handler(const struct sigaction& a) {
  return (a.sa_flags & SA_SIGINFO) && std::ranges::count(kFaultHandlers, a.sa_sigaction);
}

// Return the installation that replaces a handler: a former one for a handler that comes back.
size_t installation_over(const struct sigaction& replaced) {
  size_t i = 0;
  while (i < g_installations && (g_replaced[i].sa_sigaction != replaced.sa_sigaction ||
                                 g_replaced[i].sa_flags != replaced.sa_flags))
    ++i;
  return i;
}

void install_over(const struct sigaction& replaced) {
  size_t i = installation_over(replaced);
  if (i == kInstallations) return;  // more handlers than any program has
  g_replaced[i] = replaced;
  g_installations = std::max(g_installations.load(), i + 1);
  struct sigaction a{};
  a.sa_sigaction = kFaultHandlers[i];
  a.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&a.sa_mask);
  sigaction(SIGSEGV, &a, nullptr);
}
}  // namespace

bool start_fault_signal(FaultResolver resolve) {
  if (pipe2(g_fault_pipe, O_CLOEXEC)) return false;
  g_fault_process = getpid();
  if (!start_fault_thread([resolve] { serve_fault_requests(resolve); })) {
    for (int& end : g_fault_pipe) close(std::exchange(end, -1));
    return false;
  }
  keep_fault_signal();
  return true;
}

void add_fault_range(uint64_t base, uint64_t bytes) {
  g_fault_begin = std::min(g_fault_begin.load(), base);
  g_fault_end = std::max(g_fault_end.load(), base + bytes);
}

void keep_fault_signal() {
  struct sigaction now;
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && !is_fault_handler(now)) install_over(now);
  sigset_t fault;
  sigemptyset(&fault);
  sigaddset(&fault, SIGSEGV);
  pthread_sigmask(SIG_UNBLOCK, &fault, nullptr);
}

}  // namespace busbar::client
