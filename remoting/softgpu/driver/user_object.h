// Objects of the program that live as long as the graphs that use them.
//
// Thread safety: reference counts are guarded by a mutex of user_object.cc. The destructor of an
// object is called without it.
#pragma once
#include <cuda.h>

#include <vector>

namespace softgpu {

struct UserObject {
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  unsigned references = 1;
};

void retain_object(UserObject* o, unsigned count);
// Drop references. The object is destroyed with its last one.
void release_object(UserObject* o, unsigned count);
// Add a reference for each element and return the elements.
std::vector<UserObject*> retain_objects(const std::vector<UserObject*>& objects);

// References of an executable graph and of its launches in progress.
class HeldObjects {
 public:
  explicit HeldObjects(const std::vector<UserObject*>& objects)
      : objects_(retain_objects(objects)) {}
  ~HeldObjects() {
    for (auto* o : objects_) release_object(o, 1);
  }
  HeldObjects(const HeldObjects&) = delete;
  HeldObjects& operator=(const HeldObjects&) = delete;

 private:
  std::vector<UserObject*> objects_;  // one entry for each reference
};

}  // namespace softgpu
