#include "cache_quota.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace busbar {

namespace {
constexpr uint64_t kLeastBytes = 4096;  // an empty file needs space, too
constexpr uint64_t kStatBlock = 512;
constexpr size_t kTenantDigits = 32;
// Space that caches leave to others: a twentieth of the file system, but at most 1 GiB.
constexpr uint64_t kSpareFraction = 20, kMaxSpareBytes = 1ull << 30;

// Entries of a folder that are looked at. A tenant may add others meanwhile.
constexpr size_t kMostEntries = 4 << 20;
const std::string kMovedName = ".removed-";

struct CachedFile {
  std::string name;
  timespec used;
  uint64_t bytes;
};

uint64_t bytes_of(const struct stat& st) {
  return std::max(kLeastBytes, (uint64_t)st.st_blocks * kStatBlock);
}

void for_each_entry(int folder, const std::function<void(const char*, const struct stat&)>& call) {
  int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = own < 0 ? nullptr : fdopendir(own);
  for (size_t i = 0; listing && i < kMostEntries; ++i) {
    dirent* entry = readdir(listing);
    if (!entry) break;
    std::string name = entry->d_name;
    struct stat st;
    if (name != "." && name != ".." && fstatat(folder, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0)
      call(name.c_str(), st);
  }
  if (listing) closedir(listing);
}

// Opens a folder, also one whose mode does not permit that.
int open_folder(int parent, const char* name) {
  int folder = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  std::string path = "/proc/self/fd/" + std::to_string(folder);
  chmod(path.c_str(), 0700);
  int readable = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  close(folder);
  return readable;
}

// Removes the files of a folder, and the folder if it has no others. Those move up to `parent`,
// under numbers from `next` on: a tree may be deeper than a process can have descriptors. True if
// one has moved.
bool remove_folder(int parent, const char* name, size_t& next) {
  int folder = open_folder(parent, name);
  if (folder < 0) return false;
  bool moved = false;
  for_each_entry(folder, [&](const char* entry, const struct stat& st) {
    if (S_ISDIR(st.st_mode))
      moved |= renameat(folder, entry, parent, (kMovedName + std::to_string(next++)).c_str()) == 0;
    else
      unlinkat(folder, entry, 0);
  });
  close(folder);
  unlinkat(parent, name, AT_REMOVEDIR);
  return moved;
}

// No program of ours makes folders or links in a cache. They would evade the quota.
void remove_others(int folder) {
  size_t next = 0;
  for (bool again = true; again && next < kMostEntries;) {
    again = false;
    for_each_entry(folder, [&](const char* name, const struct stat& st) {
      if (S_ISDIR(st.st_mode))
        again |= remove_folder(folder, name, next);
      else if (!S_ISREG(st.st_mode))
        unlinkat(folder, name, 0);
    });
  }
}

std::vector<CachedFile> files_of(int folder) {
  std::vector<CachedFile> files;
  for_each_entry(folder, [&](const char* name, const struct stat& st) {
    if (S_ISREG(st.st_mode)) files.push_back({name, st.st_mtim, bytes_of(st)});
  });
  return files;
}

bool is_tenant(const std::string& name) {
  return name.size() == kTenantDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool was_used_before(const CachedFile& a, const CachedFile& b) {
  return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec
                                        : a.used.tv_nsec < b.used.tv_nsec;
}

std::vector<int> open_folders(int root) {
  std::vector<int> folders;
  for_each_entry(root, [&](const char* name, const struct stat& st) {
    if (!S_ISDIR(st.st_mode) || !is_tenant(name)) return;
    int folder = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) folders.push_back(folder);
  });
  return folders;
}

// Returns what caches with `used` bytes may have, so that their file system keeps its spare space.
uint64_t limit_by_space(int root, uint64_t used) {
  struct statvfs fs;
  if (fstatvfs(root, &fs)) return UINT64_MAX;
  uint64_t free = (uint64_t)fs.f_bavail * fs.f_frsize, all = (uint64_t)fs.f_blocks * fs.f_frsize;
  uint64_t spare = std::min(kMaxSpareBytes, all / kSpareFraction);
  return used + free > spare ? used + free - spare : 0;
}

// Returns the largest limit of one tenant with which all have at most `total` bytes.
uint64_t common_limit(std::vector<uint64_t> tenants, uint64_t total) {
  std::sort(tenants.begin(), tenants.end());
  for (size_t i = 0; i < tenants.size(); ++i) {
    uint64_t share = total / (tenants.size() - i);
    if (tenants[i] > share) return share;
    total -= tenants[i];
  }
  return UINT64_MAX;
}
}  // namespace

void mark_used(const std::string& path) {
  utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

uint64_t trim_folder(int folder, uint64_t quota) {
  std::vector<CachedFile> files = files_of(folder);
  uint64_t total = 0;
  for (const auto& file : files) total += file.bytes;
  if (total <= quota) return total;
  std::sort(files.begin(), files.end(), was_used_before);
  for (const auto& file : files) {
    if (total <= quota) break;
    if (unlinkat(folder, file.name.c_str(), 0) == 0) total -= file.bytes;
  }
  return total;
}

void trim_tenants(int root, const CacheQuotas& quotas) {
  std::vector<int> folders = open_folders(root);
  std::vector<uint64_t> tenants;
  uint64_t used = 0;
  for (int folder : folders) {
    remove_others(folder);
    tenants.push_back(trim_folder(folder, quotas.tenant_bytes));
    used += tenants.back();
  }
  uint64_t total = std::min(quotas.total_bytes, limit_by_space(root, used));
  uint64_t limit = common_limit(tenants, total);
  for (size_t i = 0; i < folders.size(); ++i) {
    if (tenants[i] > limit) trim_folder(folders[i], limit);
    close(folders[i]);
  }
}

}  // namespace busbar
