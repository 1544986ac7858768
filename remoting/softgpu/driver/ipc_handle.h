// Handles of memory and of events that another process opens: a file of the process that made them.
//
// Thread safety: any thread.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <cstring>

namespace softgpu {

enum class IpcKind : uint32_t { memory = 0x43504953, event = 0x45504953 };

// The contents of a CUipcMemHandle or CUipcEventHandle.
struct IpcHandle {
  IpcKind kind;
  uint32_t device;      // index of the device on the machine
  int32_t pid, fd;      // of the process that shares the file
  uint64_t start_time;  // of that process: its pid may be reused
  uint64_t bytes, inode;
};
static_assert(sizeof(IpcHandle) <= 64);

// Return the start time of a process in clock ticks; 0 if there is no such process.
uint64_t process_start_time(pid_t pid);

// Make the handle of a file of this process. False if it cannot be read.
bool make_ipc_handle(IpcKind kind, int device, int fd, IpcHandle& out);
// Open the file of a handle of another process; -1 if the process or the file is gone.
int open_ipc_handle(const IpcHandle& h, IpcKind kind, int device);

template <typename CudaHandle>
void write_ipc_handle(const IpcHandle& h, CudaHandle* out) {
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &h, sizeof h);
}
template <typename CudaHandle>
IpcHandle read_ipc_handle(const CudaHandle& in) {
  IpcHandle h;
  std::memcpy(&h, &in, sizeof h);
  return h;
}

}  // namespace softgpu
