// Images of modules: received once, kept in a cache of the tenant under their SHA-256.
//
// Thread safety: thread `code`. obtain_image() blocks until a transfer has arrived.
#pragma once
#include <cstdint>
#include <string>

#include "server/session.h"

namespace busbar::server {

constexpr int kUploadTimeoutMs = 120'000;
constexpr uint64_t kMaxKeptBytes = 1ull << 30;

// The source of the image of a load.
struct ImageSource {
  const uint8_t* hash;  // SHA-256, 32 bytes
  uint64_t bytes;
  uint64_t transfer;  // 0: the cache
};

// Gets the image from the cache or the bulk connection. Returns CUDA_SUCCESS, wire::kImageRequired
// if the cache does not hold it, or CUDA_ERROR_INVALID_IMAGE if it does not arrive or does not
// match its hash.
uint32_t obtain_image(Session& s, const ImageSource& source, std::string& image);

// Keeps an image that was received and has been loaded. The spawner removes others beyond the
// quota.
void keep_image(const Session& s, const uint8_t* hash, const std::string& image);

// Removes the chunks of a transfer and returns them as one string.
std::string join_transfer(Session& s, uint64_t transfer);

}  // namespace busbar::server
