#include "softgpu/device/faults.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <mutex>

namespace softgpu {

namespace {

struct FaultHandler {
  sigjmp_buf context;  // where the thread continues after a fault
  Fault fault;
};
thread_local FaultHandler* t_fault_handler = nullptr;
struct sigaction g_previous_segv, g_previous_bus, g_previous_fpe;

// The handler needs a stack of its own to report that a kernel has used up the thread's stack.
class SignalStack {
 public:
  SignalStack() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      void* low = nullptr;
      size_t bytes = 0, guard = 0;
      pthread_attr_getstack(&attributes, &low, &bytes);
      pthread_attr_getguardsize(&attributes, &guard);
      guard_begin_ = (uint64_t)low - guard;
      guard_end_ = (uint64_t)low + kProbeBytes;
      pthread_attr_destroy(&attributes);
    }
    stack_t current{};
    if (sigaltstack(nullptr, &current) || !(current.ss_flags & SS_DISABLE)) return;
    size_t bytes = (size_t)sysconf(_SC_MINSIGSTKSZ) + kHandlerBytes;
    memory_ = std::make_unique<char[]>(bytes);
    stack_t own{memory_.get(), 0, bytes};
    sigaltstack(&own, nullptr);
  }
  ~SignalStack() {
    if (!memory_) return;
    stack_t none{nullptr, SS_DISABLE, 0};
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;

  // Return whether an access to this address is an overflow of the thread's stack.
  bool overflowed(uint64_t address) const {
    return address >= guard_begin_ && address < guard_end_;
  }

 private:
  static constexpr size_t kHandlerBytes = 16 << 10;
  static constexpr uint64_t kProbeBytes = 4096;

  std::unique_ptr<char[]> memory_;
  uint64_t guard_begin_ = 0, guard_end_ = 0;
};
thread_local std::unique_ptr<SignalStack> t_signal_stack;

// A signal in a thread that runs a kernel ends the kernel; all others go to the previous handler.
void on_signal(int number, siginfo_t* info, void* context) {
  auto address = (uint64_t)info->si_addr;
  if (t_fault_handler)
    raise_fault(t_signal_stack->overflowed(address) ? FAULT_STACK : FAULT_ADDRESS, address);
  struct sigaction& before = number == SIGSEGV  ? g_previous_segv
                             : number == SIGBUS ? g_previous_bus
                                                : g_previous_fpe;
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) {
    before.sa_sigaction(number, info, context);
    return;
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler) {
    before.sa_handler(number);
    return;
  }
  signal(number, SIG_DFL);
}

void install_handlers() {
  struct sigaction a{};
  a.sa_sigaction = on_signal;
  a.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &a, &g_previous_segv);
  sigaction(SIGBUS, &a, &g_previous_bus);
  sigaction(SIGFPE, &a, &g_previous_fpe);
}

}  // namespace

void raise_fault(int kind, uint64_t address) {
  t_fault_handler->fault = {kind, address};
  siglongjmp(t_fault_handler->context, 1);
}

Fault run_guarded(const std::function<void()>& kernel) {
  static std::once_flag once;
  std::call_once(once, install_handlers);
  if (!t_signal_stack) t_signal_stack = std::make_unique<SignalStack>();
  FaultHandler handler;
  t_fault_handler = &handler;
  if (sigsetjmp(handler.context, 1) == 0) kernel();
  t_fault_handler = nullptr;
  return handler.fault;
}

}  // namespace softgpu
