// The first stage of the executor: splits the byte stream of the link into records, looks up their
// operations and assigns their positions.
//
// Thread safety: executor thread only. Trusts nothing that it reads.
#pragma once
#include <cstdint>

#include "server/record.h"

namespace busbar::server {

enum class ReadResult { record, incomplete, malformed };

class RecordReader {
 public:
  // Decodes the record at the head of `n` bytes. Its payload stays in `p`.
  ReadResult next(const uint8_t* p, uint64_t n, Record& out);
  uint64_t position() const { return position_; }  // end of the newest record

 private:
  uint64_t position_ = 0;
};

}  // namespace busbar::server
