// One decoded record.
#pragma once
#include <cstdint>
#include <memory>

#include "server/event.h"
#include "wire/decode.h"

namespace busbar::server {

struct Operation;

struct Record {
  wire::RecordHeader head;
  const Operation* operation = nullptr;
  const uint8_t* payload = nullptr;  // valid during the call that receives the record
  uint64_t position = 0;             // end of the record in the byte stream of the link
  // Progress of a record that waits for staging: bytes that were submitted, and whether a graph was
  // launched.
  uint64_t submitted_bytes = 0;
  bool launched = false;
  std::shared_ptr<DriverEvent> event;  // version of the event that the record names
  // The shared event that the record names, and the number of the record of the event.
  std::shared_ptr<SharedEvent> shared_event;
  uint32_t shared_record = 0;
  uint64_t payload_bytes() const { return head.bytes - sizeof head; }
  wire::Decoder decoder() const { return {payload, payload_bytes()}; }
};

}  // namespace busbar::server
