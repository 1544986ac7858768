// The payload of a record that is larger than one record may be: it arrives in `part` records.
//
// Thread safety: executor thread only.
#pragma once
#include <cstdint>
#include <vector>

#include "server/record.h"

namespace busbar::server {

class RecordParts {
 public:
  // Collects bytes. Returns false above kMaxPayloadBytes.
  bool add(const uint8_t* p, uint64_t n);
  // Puts the collected bytes before the payload of a record that ends the parts. `payload` owns the
  // result. Returns false above kMaxPayloadBytes.
  bool complete(Record& r, std::vector<uint8_t>& payload);

 private:
  std::vector<uint8_t> collected_;
};

}  // namespace busbar::server
