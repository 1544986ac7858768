// Child processes that execute the calls, so that a crash or a hang names its function.
//
// Thread safety: for one thread.
#pragma once
#include <cstdint>
#include <functional>

#include "function.h"
#include "objects.h"

// The progress of the child, in memory that it shares with the parent.
struct Progress {
  int next;
  uint64_t calls;
  char doing[256];
};
extern Progress* const progress;

void note(const Function& f, const char* parameter, const char* fault);
// Run `one` for the numbers below `end`, each child some of them. Return whether a child crashed.
bool run_all(int end, int of_a_child, const std::function<void(int, Objects&)>& one);
