// The handlers of all opcodes, declared from the rows of wire/opcodes.h. Each one is defined in the
// file of its concept: handlers::launch in launch.cc, handlers::load_module in module.cc.
//
// Payload layouts stand above the definitions. A record with a reply carries the reply id first.
//
// Thread safety: a handler is called by the thread that its row names.
#pragma once
#include <cstdint>

#include "server/outcome.h"
#include "wire/decode.h"
#include "wire/opcodes.h"

namespace busbar::server {

struct Pipeline;
struct Record;
struct Session;
struct StreamState;

// Bulk bytes that a record needs before it can run; transfer 0: none.
struct Transfer {
  uint64_t id = 0;
  uint64_t bytes = 0;
};

// Signatures. A handler that returns bool returns false for a malformed record, which ends the
// session. A stream handler may let its record wait; see outcome.h.
using SessionHandler = void (*)(Session&, wire::Decoder);
using PipelineHandler = bool (*)(Pipeline&, const Record&);
using StreamHandler = Outcome (*)(Pipeline&, Record&, StreamState&);
using TransferOf = Transfer (*)(const Record&);

namespace handlers {

#define DECLARE_session(name) void name(Session& s, wire::Decoder in);
#define DECLARE_pipeline(name) bool name(Pipeline& p, const Record& r);
#define DECLARE_stream(name) Outcome name(Pipeline& p, Record& r, StreamState& st);
#define DECLARE_upload(name) DECLARE_stream(name) Transfer name##_transfer(const Record& r);

#define OP(name, number, order, thread, handler) DECLARE_##handler(name)
BUSBAR_OPCODES(OP)
#undef OP

#undef DECLARE_session
#undef DECLARE_pipeline
#undef DECLARE_stream
#undef DECLARE_upload

}  // namespace handlers
}  // namespace busbar::server
