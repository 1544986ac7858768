// The order in which the kernel ends processes when host memory runs out: sessions go before the
// processes of the node and of the machine.
//
// Thread safety: any thread.
#pragma once

namespace busbar::spawner {

// Of sessions and their compilers. Other processes have 0, those of an installed node less.
constexpr int kSessionOomScore = 500;

// Gives this process the score of sessions, or keeps a higher one. False if the kernel refuses.
bool take_session_oom_score();

// Returns the score of this process.
int own_oom_score();

}  // namespace busbar::spawner
