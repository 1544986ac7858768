// Builds seccomp programs that permit listed system calls of x86-64.
#pragma once
#include <linux/filter.h>
#include <stddef.h>

#include <vector>

namespace busbar::control {

class SystemCallFilter {
 public:
  // `otherwise` is the action for calls that no rule names. Calls of other architectures end the
  // process.
  explicit SystemCallFilter(unsigned otherwise);

  void permit(int call);
  void refuse(int call, int error);
  // Permits a call if its argument is one of the values.
  void permit_values(int call, unsigned argument, const std::vector<unsigned>& values);
  // Permits a call if the bits of `mask` in its argument are one of the values.
  void permit_masked(int call, unsigned argument, unsigned mask,
                     const std::vector<unsigned>& values);
  std::vector<sock_filter> take();

 private:
  void load(size_t offset);
  void finish(unsigned action);
  void answer(int call, unsigned action);
  unsigned otherwise_;
  std::vector<sock_filter> code_;
};

// Puts a program in force for all threads of this process and for its children. `flags` are those
// of seccomp(2). Returns its result.
long install_filter(const std::vector<sock_filter>& code, unsigned flags);

}  // namespace busbar::control
