// The folder of NVIDIA's driver, which the cage of a session shows.
#pragma once
#include <string>
#include <vector>

namespace busbar::spawner {

// Returns the path at which the dynamic loader finds a library; the name itself if it finds none.
// Loads it in a child process.
std::string find_library(const std::string& name);

// Returns the folder of a library, and that of the file if the path is a link. Nothing for a name
// without a folder.
std::vector<std::string> folders_of(const std::string& library);

}  // namespace busbar::spawner
