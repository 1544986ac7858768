// Collects ended children. Nothing else waits for any child: a child whose exit is taken by another
// would be waited for without end.
#pragma once
#include "spawner/cache_trimmer.h"
#include "spawner/sessions.h"

namespace busbar::spawner {

// After SIGCHLD. Does not block.
void collect_children(CacheTrimmer& trimmer, Sessions& sessions);

}  // namespace busbar::spawner
