#include "null_driver/process.h"

#include <pthread.h>
#include <unistd.h>

#include <future>
#include <thread>

namespace {
// Without /proc NVIDIA's driver does not start. Tests of such cages are about other things.
bool has_processes() {
  return access("/proc/self/task", F_OK) == 0;
}

bool name_thread() {
  std::promise<void> end;
  std::thread thread([&] { end.get_future().wait(); });
  bool named = pthread_setname_np(thread.native_handle(), "null driver") == 0;
  end.set_value();
  thread.join();
  return named;
}
}  // namespace

bool names_a_thread() {
  static const bool named = !has_processes() || name_thread();
  return named;
}
