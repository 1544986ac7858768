// Folders that another user can change, used by a process with more rights.
//
// Thread safety: for any thread.
#pragma once
#include <string>

namespace busbar::spawner {

// Creates a folder of this user that only it can write and everyone can read. False if there is
// something else: a link, or a folder of another user or one that others can write.
bool make_public_folder(const std::string& path);

// Opens FOLDER/PATH as O_PATH, or returns -1. Creates what is missing. Follows no symbolic link
// below FOLDER, and refuses a result that has another owner than `owner`.
int open_below(const std::string& folder, const std::string& path, const std::string& owner);

}  // namespace busbar::spawner
