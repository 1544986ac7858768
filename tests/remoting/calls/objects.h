// Objects of every kind for the generated calls, created on demand in one context.
//
// Thread safety: for one thread.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "check.h"

// An object could not be created. Random calls may have made that impossible; otherwise no code
// catches it.
struct CreationFailure {
  CUresult result;
};
#undef OK
#define OK(call)                                        \
  do {                                                  \
    if (CUresult r_ = (call)) fail_creation(#call, r_); \
  } while (0)
[[noreturn]] void fail_creation(const char* call, CUresult result);

class Objects {
 public:
  Objects() { start(); }

  // Return the object of a kind such as "stream". Creates it at the first call.
  // The functions that create objects throw CreationFailure.
  uint64_t get(const std::string& kind);
  // Return an object that was destroyed, or 0 if nothing destroys its kind.
  uint64_t freed(const std::string& kind);
  // Return an object of the other context, or 0 if it has none of the kind.
  uint64_t of_other_context(const std::string& kind);

  // Forget the objects, because a call may have destroyed some of them.
  void forget() {
    values_.clear();
    freed_.clear();
    others_.clear();
  }
  void forget_other_context() { others_.clear(); }
  // Forget the object of a kind and those that end with it.
  void forget(const std::string& kind);
  // Return the same freed objects, and those of the other context, until they are forgotten.
  void keep() { keeps_ = true; }
  // Make the context current. Return whether it runs work; otherwise start a new one.
  bool recover();

  CUcontext context() const { return context_; }
  CUdeviceptr memory() const { return memory_; }
  void set(const std::string& kind, uint64_t value) { values_[kind] = value; }

 private:
  void start();
  bool works();

  CUcontext context_ = nullptr, other_ = nullptr;
  CUdeviceptr memory_ = 0;
  std::map<std::string, uint64_t> values_, freed_, others_;
  bool keeps_ = false;
};

constexpr size_t kMemoryBytes = 4096;
// Of host memory behind each pointer argument: more than any number of elements that a library
// reads.
constexpr size_t kBufferBytes = 4 << 20;

// Write the structure or array of a name into a zeroed buffer. Exits for an unknown name.
void write_structure(const std::string& name, Objects& objects, void* buffer);
