// Arguments of the generated calls: valid ones, and the bad values of each.
//
// Thread safety: for one thread.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "function.h"
#include "objects.h"

constexpr size_t kMaxParameters = 24;

struct Arguments {
  uint64_t words[kMaxParameters] = {};
};

// One bad value of one argument.
struct Fault {
  std::string name;
  std::function<uint64_t(Objects&)> value;
};

// Arguments with which a function succeeds. Pointers lead to buffers that the next call reuses.
Arguments valid_arguments(const Function& f, Objects& objects);
std::vector<Fault> faults_of(const Parameter& p);
// More bad values for random calls: numbers at the limits of other types and sizes.
std::vector<Fault> random_faults_of(const Parameter& p);
