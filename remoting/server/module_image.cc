#include "server/module_image.h"

#include <openssl/sha.h>

#include <cstdio>
#include <cstring>

#include "cache_quota.h"
#include "control/hex.h"

namespace busbar::server {

namespace {
constexpr size_t kHashBytes = 32;
constexpr size_t kReadBytes = 64 << 10;

bool matches(const std::string& image, const uint8_t* hash) {
  uint8_t digest[kHashBytes];
  SHA256((const uint8_t*)image.data(), image.size(), digest);
  return !std::memcmp(digest, hash, kHashBytes);
}

std::string cache_path(const Session& s, const uint8_t* hash) {
  return s.image_folder + "/" + control::hex(hash, kHashBytes);
}

// Returns an empty string if the cache has no intact image.
std::string read_cached(const Session& s, const uint8_t* hash) {
  if (s.image_folder.empty()) return "";
  FILE* f = std::fopen(cache_path(s, hash).c_str(), "rb");
  if (!f) return "";
  std::string image;
  char buffer[kReadBytes];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof buffer, f)) > 0 && image.size() < wire::kMaxImageBytes)
    image.append(buffer, n);
  std::fclose(f);
  if (!matches(image, hash)) return "";
  mark_used(cache_path(s, hash));
  return image;
}
}  // namespace

// Several session servers may write the same image: each renames a file of its own.
void keep_image(const Session& s, const uint8_t* hash, const std::string& image) {
  if (s.image_folder.empty() || image.size() > kMaxKeptBytes) return;
  std::string path = cache_path(s, hash), temporary = path + "." + control::hex(s.id.data(), 8);
  FILE* f = std::fopen(temporary.c_str(), "wb");
  if (!f) return;
  bool whole = std::fwrite(image.data(), 1, image.size(), f) == image.size();
  whole = std::fclose(f) == 0 && whole;
  if (!whole || std::rename(temporary.c_str(), path.c_str())) std::remove(temporary.c_str());
}

std::string join_transfer(Session& s, uint64_t transfer) {
  std::string data;
  for (auto& chunk : s.bulk.collect(transfer)) data.append((const char*)chunk.data(), chunk.size());
  return data;
}

uint32_t obtain_image(Session& s, const ImageSource& source, std::string& image) {
  if (!source.transfer) {
    image = read_cached(s, source.hash);
    return image.empty() ? wire::kImageRequired : (uint32_t)CUDA_SUCCESS;
  }
  if (!s.bulk.wait(source.transfer, source.bytes, kUploadTimeoutMs))
    return CUDA_ERROR_INVALID_IMAGE;
  image = join_transfer(s, source.transfer);
  s.credit(image.size());
  if (image.size() != source.bytes || !matches(image, source.hash)) return CUDA_ERROR_INVALID_IMAGE;
  return CUDA_SUCCESS;
}

}  // namespace busbar::server
