// What NVIDIA's driver does in the process of a program, as seen with driver 580: a cage in which
// it cannot do this has no GPU.
//
// Thread safety: all functions may be called from any thread.
#pragma once

// Names a thread of its own, by a file in /proc. False if that is not possible.
bool names_a_thread();
