// Memory that this process writes and others can only read: its descriptor can be given away.
//
// Thread safety: none.
#pragma once
#include <cstddef>
#include <memory>

namespace busbar::launcher {

class SealedMemory {
 public:
  // Null when the system cannot create it. All bytes are zero.
  static std::unique_ptr<SealedMemory> create(const char* name, size_t bytes);
  ~SealedMemory();
  SealedMemory(const SealedMemory&) = delete;
  void* data() const { return data_; }
  int descriptor() const { return fd_; }

 private:
  SealedMemory(int fd, void* data, size_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}
  const int fd_;
  void* const data_;
  const size_t bytes_;
};

}  // namespace busbar::launcher
