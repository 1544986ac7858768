// Decompression of entries of fat binaries.
//
// Thread safety: any thread. The first call loads a library.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace busbar::images {

enum class Compression { none, lz4, zstd };

// Replace `out` by exactly `plain_bytes` bytes. False if the data is malformed, has another size,
// or the library is missing. The caller limits `plain_bytes`.
bool inflate(Compression how, std::string_view data, uint64_t plain_bytes, std::string& out);

}  // namespace busbar::images
