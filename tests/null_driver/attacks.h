// Native code that a hostile tenant would run in its session server, to leave it.
#pragma once
#include <string>

// Runs an attack, such as "open /etc/passwd". Returns 0 if it worked, else an errno. The kernel may
// end the process instead.
int run_attack(const std::string& command);
