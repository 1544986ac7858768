// Faults of managed memory by SIGSEGV, where userfaultfd is not permitted.
//
// The handler passes a fault to the thread of the resolver and waits: it needs little of what may
// be a small signal stack. Other faults go to the handler that it has replaced. A program that
// installs a handler later replaces ours until keep_fault_signal(). A fault in a thread that
// blocks SIGSEGV kills the process.
//
// Thread safety: the caller serializes the calls.
#pragma once
#include "client/managed_pages.h"

namespace busbar::client {

// Starts the thread of the resolver and installs the handler. Returns false if it cannot.
bool start_fault_signal(FaultResolver resolve);
// Adds a range whose faults are for the resolver. Others must not wait for its thread, which may
// be waiting for the GPU.
void add_fault_range(uint64_t base, uint64_t bytes);
// Installs the handler again if the program has replaced it, and unblocks SIGSEGV in this thread.
void keep_fault_signal();

}  // namespace busbar::client
