#include "control/system_call_filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace busbar::control {

namespace {
constexpr unsigned kFirstX32Call = 0x40000000;
}

SystemCallFilter::SystemCallFilter(unsigned otherwise) : otherwise_(otherwise) {
  load(offsetof(seccomp_data, arch));
  code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
  finish(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(seccomp_data, nr));
  // The x32 variants have other numbers.
  code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirstX32Call, 0, 1));
  finish(SECCOMP_RET_KILL_PROCESS);
}

void SystemCallFilter::permit(int call) {
  answer(call, SECCOMP_RET_ALLOW);
}

void SystemCallFilter::refuse(int call, int error) {
  answer(call, SECCOMP_RET_ERRNO | (unsigned)error);
}

void SystemCallFilter::permit_values(int call, unsigned argument,
                                     const std::vector<unsigned>& values) {
  permit_masked(call, argument, ~0u, values);
}

void SystemCallFilter::permit_masked(int call, unsigned argument, unsigned mask,
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

std::vector<sock_filter> SystemCallFilter::take() {
  finish(otherwise_);
  return std::move(code_);
}

void SystemCallFilter::load(size_t offset) {
  code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

void SystemCallFilter::finish(unsigned action) {
  code_.push_back(BPF_STMT(BPF_RET | BPF_K, action));
}

void SystemCallFilter::answer(int call, unsigned action) {
  code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1));
  finish(action);
}

long install_filter(const std::vector<sock_filter>& code, unsigned flags) {
  sock_fprog program{(unsigned short)code.size(), const_cast<sock_filter*>(code.data())};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC | flags, &program);
}

}  // namespace busbar::control
