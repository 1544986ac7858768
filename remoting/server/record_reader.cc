#include "server/record_reader.h"

#include "server/operations.h"

namespace busbar::server {

ReadResult RecordReader::next(const uint8_t* p, uint64_t n, Record& out) {
  int state = wire::next_record(p, n, out.head);
  if (state < 0) return ReadResult::malformed;
  if (state == 0) return ReadResult::incomplete;
  position_ += out.head.bytes;
  out.position = position_;
  out.payload = p + sizeof out.head;
  out.operation = find_operation(out.head.opcode);
  return out.operation ? ReadResult::record : ReadResult::malformed;
}

}  // namespace busbar::server
