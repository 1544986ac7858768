// A kernel function of a module.
//
// Thread safety: a Function is constant after its creation. Members of FunctionsById may be called
// from any thread; one mutex, never held while another lock is taken.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "mutex.h"
#include "wire/format.h"

namespace busbar::client {

struct Module;

struct Parameter {
  uint32_t offset, bytes;
};

constexpr uint32_t kMaxParameterBytes = 32764;  // limit of CUDA

struct Function {
  Module* module = nullptr;
  uint32_t id = 0;
  std::string name;
  int attributes[wire::kFunctionAttributes] = {};             // by CUfunction_attribute
  uint32_t attribute_status[wire::kFunctionAttributes] = {};  // CUresult of each attribute
  std::vector<Parameter> layout;
  bool has_unaligned = false;    // a packed parameter, whose addresses are at no multiple of 8
  uint32_t parameter_bytes = 0;  // at most kMaxParameterBytes
  void* handle = nullptr;
};

// Functions by the id that the session server uses.
class FunctionsById {
 public:
  void add(uint32_t id, Function* f) {
    MutexLock lock(mutex_);
    functions_[id] = f;
  }
  void remove(uint32_t id) {
    MutexLock lock(mutex_);
    functions_.erase(id);
  }
  Function* get(uint32_t id) {
    MutexLock lock(mutex_);
    auto it = functions_.find(id);
    return it == functions_.end() ? nullptr : it->second;
  }

 private:
  Mutex mutex_;
  std::unordered_map<uint32_t, Function*> functions_ GUARDED_BY(mutex_);
};

}  // namespace busbar::client
