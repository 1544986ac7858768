// A charge to the partition of a device, for as long as the memory exists.
//
// Thread safety: one thread at a time. The constructor waits for the launcher, so the executor
// makes none; the destructor does not wait.
#pragma once
#include <cstdint>
#include <utility>

#include "server/account.h"

namespace busbar::server {

class MemoryCharge {
 public:
  MemoryCharge() = default;
  // Charges before the memory is allocated; see Account::reserve(). Check granted().
  MemoryCharge(Account& account, uint32_t partition, uint64_t bytes, bool asks = true)
      : account_(&account),
        partition_(partition),
        bytes_(bytes),
        granted_(!bytes || account.reserve(partition, bytes, asks)) {}
  MemoryCharge(MemoryCharge&& other) noexcept { swap(other); }
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MemoryCharge() {
    if (granted_ && bytes_) account_->release(partition_, bytes_);
  }

  bool granted() const { return granted_; }
  void keep() { granted_ = false; }  // for ever: the driver did not free the memory
  uint64_t bytes() const { return bytes_; }

 private:
  void swap(MemoryCharge& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(partition_, other.partition_);
    std::swap(bytes_, other.bytes_);
    std::swap(granted_, other.granted_);
  }
  Account* account_ = nullptr;
  uint32_t partition_ = 0;
  uint64_t bytes_ = 0;
  bool granted_ = false;
};

}  // namespace busbar::server
