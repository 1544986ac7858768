// Quotas of folders of cached files. The file that was used least recently goes first; a reader
// marks a file as used with mark_used().
//
// Thread safety: any thread and process. Several may trim the same folder at once. A tenant may
// change its folder meanwhile: entries are addressed by descriptor and name, and links are not
// followed.
#pragma once
#include <cstdint>
#include <string>

namespace busbar {

struct CacheQuotas {
  uint64_t tenant_bytes, total_bytes;
};

void mark_used(const std::string& path);

// Removes regular files of a folder until they have at most `quota` bytes on disk. Returns the
// bytes that are left.
uint64_t trim_folder(int folder, uint64_t quota);

// Trims the folders in `root` that are named by a tenant's id (32 hexadecimal digits), and removes
// everything in them that is no regular file. When all have more than `total_bytes`, or their file
// system has little space left, the tenants with the most bytes give up the difference. A tenant
// that fills its folder takes nothing from those who have less.
void trim_tenants(int root, const CacheQuotas& quotas);

}  // namespace busbar
