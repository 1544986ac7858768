// Mapped host memory: pinned and registered memory that kernels access.
//
// A copy in device memory is created when the program requests the device pointer, or uses pinned
// memory as device memory: in a parameter of a kernel, a fill or a copy. The copy of pinned memory
// has the same address, unless the node uses this address itself. Changes are found by comparing
// words with the content at the last synchronization. A kernel that waits for a write by the host
// during its run, or the reverse, does not work over a network.
//
// A copy from the device to this memory writes both copies, and the content that is compared: the
// copy on the node in the order of the stream, the others when the bytes arrive. Bytes that are
// still to arrive are not compared.
//
// Thread safety: all functions may be called from any thread. One mutex, held while memory is
// compared, sent or fetched.
#pragma once
#include <cuda.h>

#include <cstring>

#include "client/address_map.h"
#include "client/function.h"
#include "client/host_mirror_count.h"
#include "client/pinned_memory.h"
#include "client/rows.h"

namespace busbar::client {

class Link;
struct Stream;

// Creates the device copy of a pinned or registered region on the node of a context on first use,
// and returns its address.
CUresult map_host_memory(const Region& r, Context* c, uint64_t& device);
// Frees the device copies of a region.
void unmap_host_memory(const void* host);
// Fetches and frees the device copies that were created in a context.
void unmap_context(Context* c);

// Creates device copies of pinned memory at the same address, if an address lies in it.
CUresult map_pinned(Context* c, uint64_t address);
// The same for the addresses in a block of parameters of a kernel, at multiples of eight bytes.
CUresult map_all_pinned(Context* c, const uint8_t* parameters, uint32_t bytes);
// The same, on the launch path: without an address of pinned memory it takes no lock.
inline CUresult map_pinned_words(Context* c, const uint8_t* parameters, uint32_t bytes) {
  bool found = false;
  uint64_t value;
  for (uint32_t at = 0; at + sizeof value <= bytes; at += sizeof value) {
    std::memcpy(&value, parameters + at, sizeof value);
    found |= may_be_pinned(value);
  }
  return found ? map_all_pinned(c, parameters, bytes) : CUDA_SUCCESS;
}
// The same, also for parameters that begin at no multiple of eight bytes.
inline CUresult map_pinned_parameters(Context* c, const Function* f, const uint8_t* parameters,
                                      uint32_t bytes) {
  if (CUresult r = map_pinned_words(c, parameters, bytes)) return r;
  if (!f->has_unaligned) return CUDA_SUCCESS;
  for (const Parameter& p : f->layout)
    if (CUresult r = map_pinned_words(c, parameters + p.offset, p.bytes)) return r;
  return CUDA_SUCCESS;
}

// Sends the changes of the program to the node. Call it before work is submitted to a stream.
CUresult flush_mapped(Stream& s);
// Fetches the changes of kernels. Call it after a wait for the work of a context.
CUresult fetch_mapped(Context* c);

bool is_mapped(CUdeviceptr p);  // whether the address lies in a device copy
// Return the device address of host memory in its newest device copy, or 0 if there is none.
uint64_t mapped_address(uint64_t host);
// Return the address of a range of host memory in its device copy on a node, or 0 if there is none.
uint64_t device_copy_of(Link* link, const void* host, uint64_t bytes);
// Return whether a range of host memory overlaps memory with a device copy, other than one on
// `known` that covers the range. `known` may be null.
bool has_device_copies(const void* host, uint64_t bytes, const Link* known);
// Registers the target of a transfer, as Link::expect_transfer does, that the caller submits behind
// a copy to the device copy of that target, if it has one on the node.
uint64_t expect_delivery(Link* link, const Rows& to, uint64_t offset, uint64_t bytes);
// Waits for the work of a stream and fetches the changes of kernels.
CUresult settle_mapped(Context* c, Stream* s);
// Sends rows of host memory that a transfer has written to all their device copies.
CUresult send_to_device_copies(const Rows& rows);

// Ends a copy without a stream: a copy to mapped host memory is complete when it returns, because
// the program may read that memory.
inline CUresult synchronize_if_mapped(CUresult r, CUdeviceptr to) {
  return r || !has_host_mirrors() || !is_mapped(to) ? r : cuStreamSynchronize(nullptr);
}

}  // namespace busbar::client
