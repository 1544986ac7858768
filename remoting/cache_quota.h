// Quota of a folder of cached files. The file that was used least recently goes first; a reader
// marks a file as used with mark_used().
//
// Thread safety: any thread and process. Several may clean the same folder at once.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace busbar {

struct CachedFile {
  std::filesystem::file_time_type used;
  uint64_t bytes;
  std::filesystem::path path;
};

inline void mark_used(const std::string& path) {
  utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

// Returns the regular files of the folder and of its folders. Symbolic links are not followed.
inline std::vector<CachedFile> cached_files(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<CachedFile> found;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code gone;
    if (!at->is_regular_file(gone) || at->is_symlink(gone)) continue;
    CachedFile file{at->last_write_time(gone), at->file_size(gone), at->path()};
    if (!gone) found.push_back(std::move(file));
  }
  return found;
}

// Removes files until the folder has at most `quota` bytes.
inline void trim_cache(const std::string& folder, uint64_t quota) {
  std::vector<CachedFile> files = cached_files(folder);
  uint64_t total = 0;
  for (const auto& file : files) total += file.bytes;
  if (total <= quota) return;
  std::sort(files.begin(), files.end(), [](auto& a, auto& b) { return a.used < b.used; });
  for (const auto& file : files) {
    if (total <= quota) return;
    std::error_code error;
    std::filesystem::remove(file.path, error);
    if (!error) total -= file.bytes;
  }
}

}  // namespace busbar
