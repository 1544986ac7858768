// Destruction of a context with everything that lives in it.
//
// Thread safety: any thread.
#pragma once

namespace busbar::client {

struct Context;

// Waits for the work of a context, then destroys the storage of libraries, memory, streams and
// modules in it, and the context on the node. The object stays for a later activate_context().
void destroy_context(Context* c);

}  // namespace busbar::client
