// User objects: data of the program that lives as long as the graphs that refer to it. The node
// does not know them.
//
// Thread safety: all functions may be called from any thread. Destructors of the program are called
// without the lock.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace busbar::client {

struct UserObject;
// Numbers of references, in the order in which the objects were added.
using UserObjects = std::vector<std::pair<UserObject*, uint64_t>>;

CUuserObject create_user_object(void* data, CUhostFn destroy, unsigned references);
// These return CUDA_ERROR_INVALID_VALUE for a handle that is not live and for a count of 0.
CUresult retain_user_object(CUuserObject h, unsigned count);
CUresult release_user_object(CUuserObject h, unsigned count);
// References held by a graph. With `move`, the graph takes over references of the caller.
CUresult retain_user_object_by_graph(CUgraph g, CUuserObject h, unsigned count, bool move);
CUresult release_user_object_by_graph(CUgraph g, CUuserObject h, unsigned count);

// Adds the references of one graph to another one.
void share_user_objects(const void* from, const void* to);
bool has_user_objects(const void* holder);
// Removes the references of a graph without releasing them.
UserObjects remove_user_objects(const void* holder);
void restore_user_objects(const void* holder, UserObjects objects);
void release_user_objects(const UserObjects& objects);

}  // namespace busbar::client
