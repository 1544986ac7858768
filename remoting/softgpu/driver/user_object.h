// Objects of the program that live as long as the graphs that use them.
//
// Thread safety: reference counts are guarded by a mutex of user_object.cc. The destructor of an
// object is called without it.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace softgpu {

struct UserObject {
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  uint64_t own = 1;   // references of the program
  uint64_t held = 0;  // references of graphs, which the program cannot release itself
};
// Numbers of references, in the order in which the objects were added.
using ObjectCounts = std::vector<std::pair<UserObject*, uint64_t>>;
// Return the number of an object, which is added with 0 references if there is none.
uint64_t& count_of(ObjectCounts& counts, UserObject* o);

void retain_object(UserObject* o, uint64_t count);
// Drop references of the program, at most those that it has. The object ends with the last
// reference.
void release_object(UserObject* o, uint64_t count);
// Let a graph hold references; with `move` they are those of the program.
void hold_object(UserObject* o, uint64_t count, bool move);
// Hold each object as often again. Return the numbers.
ObjectCounts hold_objects(const ObjectCounts& objects);
// Drop references of graphs.
void drop_objects(const ObjectCounts& objects);

// References of an executable graph and of its launches in progress.
class HeldObjects {
 public:
  explicit HeldObjects(const ObjectCounts& objects) : objects_(hold_objects(objects)) {}
  ~HeldObjects() { drop_objects(objects_); }
  HeldObjects(const HeldObjects&) = delete;
  HeldObjects& operator=(const HeldObjects&) = delete;

 private:
  ObjectCounts objects_;
};

}  // namespace softgpu
