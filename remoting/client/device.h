// One GPU or partition of the session.
//
// Thread safety: members are constant after cuInit, except those marked below.
#pragma once
#include <cuda.h>

#include <atomic>
#include <memory>
#include <vector>

#include "client/heap.h"
#include "mutex.h"

namespace busbar::client {

class Link;
struct Context;

struct Device {
  Link* link = nullptr;
  uint32_t remote = 0;      // index on its node
  int ordinal = -1;         // CUdevice; -1: CUDA_VISIBLE_DEVICES hides it
  uint32_t pci_domain = 0;  // one for each node, so that PCI addresses are unique
  char name[256] = {};
  CUuuid uuid{};
  std::vector<int> attributes;          // by CUdevice_attribute
  std::vector<bool> known;              // whether the node's driver knows the attribute
  uint64_t arena = 0, arena_bytes = 0;  // reserved addresses
  std::unique_ptr<Heap> heap;           // in the arena; null: the node chooses addresses

  Mutex mutex;
  std::atomic<Context*> primary{nullptr};  // set once, with the mutex
  int primary_references GUARDED_BY(mutex) = 0;
  std::atomic<unsigned> primary_flags{0};
};

}  // namespace busbar::client
