#include "client/managed_faults.h"

#include <cstdio>
#include <cstring>

#include "client/fault_signal.h"
#include "client/protected_pages.h"
#include "client/userfault_pages.h"

namespace busbar::client {

namespace {
enum class Faults { none, by_userfault, by_signal };
Faults g_managed_faults = Faults::none;

Faults start_managed_faults(FaultResolver resolve) {
  int error = start_userfaults(resolve);
  if (!error) return Faults::by_userfault;
  if (!start_fault_signal(resolve)) return Faults::none;
  std::fprintf(
      stderr,
      "busbar: no userfaultfd (%s): managed memory fails in threads that block SIGSEGV, and "
      "behind a handler for it that is set after the last launch or copy\n",
      std::strerror(error));
  return Faults::by_signal;
}
}  // namespace

std::unique_ptr<ManagedPages> map_managed_pages(uint64_t base, uint64_t bytes,
                                                FaultResolver resolve) {
  if (g_managed_faults == Faults::none) g_managed_faults = start_managed_faults(resolve);
  if (g_managed_faults == Faults::none) return nullptr;
  return g_managed_faults == Faults::by_userfault ? map_userfault_pages(base, bytes)
                                                  : map_protected_pages(base, bytes);
}

void keep_managed_faults() {
  if (g_managed_faults == Faults::by_signal) keep_fault_signal();
}

}  // namespace busbar::client
