// Generated calls that the client wraps, and what graphs share among the files that make them.
#pragma once
#include "client/graph.h"
#include "client/session.h"

namespace busbar::client {

#include "wrapped_calls.inc"

void take_over(GraphModel& to, GraphModel& from, bool replace);
CUresult send_input(Link* link, uint32_t context, uint32_t stream, Stream* s, const HostCopy& c);
void share_objects(const void* from, const void* to);  // user_object.cc

// References to user objects that a graph holds: one entry a reference.
struct UserObject;
using UserObjects = std::vector<UserObject*>;
UserObjects take_objects_of(const void* holder);
void give_objects_to(const void* holder, UserObjects objects);
void release_objects(const UserObjects& objects);

}  // namespace busbar::client
