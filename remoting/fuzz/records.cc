// libFuzzer target: records of a client, and the bulk bytes that some of them wait for.
//
// The input is a word whose bits decide which driver calls fail, and a list of steps: the header
// below and the bytes that it announces. Or raw bytes for the record reader, if they begin with
// 0xff. tests/suites/fuzz_record_steps.py writes this format.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fuzz/world.h"
#include "server/turns.h"

using namespace busbar;
using namespace busbar::server;
using fuzz::World;

namespace {
// Every opcode of the table.
const uint16_t kOpcodes[] = {
#define OP(name, number, order, thread, handler) number,
    BUSBAR_OPCODES(OP)
#undef OP
};

enum Kind : uint8_t { kRow, kCudaCall, kBulkBytes, kDriver };

struct StepHeader {
  // kRow: index in the table; kCudaCall: opcode; kBulkBytes: transfer; kDriver: bit 0: no event
  // completes; bit 1: helper threads run what was posted
  uint8_t which;
  uint8_t place;  // bits 0-1: context; 2-3: stream; 4-5: kind; 6: ends the parts before it
  uint16_t bytes;
  Kind kind() const { return (Kind)(place >> 4 & 3); }
};

std::vector<uint8_t> record_of(const StepHeader& step, const uint8_t* payload) {
  uint16_t opcode =
      step.kind() == kCudaCall ? step.which : kOpcodes[step.which % std::size(kOpcodes)];
  uint32_t stream = step.place >> 2 & 3u;
  wire::RecordHeader h{(uint32_t)((sizeof h + step.bytes + 15) & ~15u), opcode,
                       (uint16_t)(step.place >> 6 & 1 ? wire::kInParts : 0), step.place & 3u,
                       stream ? wire::kFirstStream + stream : wire::kNoStream};
  std::vector<uint8_t> out(h.bytes);
  std::memcpy(out.data(), &h, sizeof h);
  std::copy(payload, payload + step.bytes, out.data() + sizeof h);
  return out;
}

// The bytes begin with their offset in the transfer.
bool arrive(fuzz::Bulk& bulk, PinnedPool& pool, const StepHeader& step, const uint8_t* payload) {
  wire::Decoder in(payload, step.bytes);
  uint64_t offset = in.get<uint64_t>(), bytes = in.left();
  if (!bytes) return false;
  Chunk chunk(pool.acquire_idle(bytes), bytes);
  std::memcpy(chunk.data(), in.raw(bytes), bytes);
  return bulk.add(step.which, offset, std::move(chunk));
}

// Some of that work waits for bytes that never come.
void wait_for_posted(const Session& session) {
  for (int i = 0; i < 1000 && session.posted_bytes; ++i) usleep(100);
}

void run_steps(Executor& executor, const Session& session, fuzz::Bulk& bulk, PinnedPool& pool,
               const uint8_t* p, size_t n) {
  StepHeader step;
  while (n >= sizeof step) {
    std::memcpy(&step, p, sizeof step);
    p += sizeof step;
    n -= sizeof step;
    step.bytes = (uint16_t)std::min<size_t>(step.bytes, n);
    bool ok;
    if (step.kind() == kDriver) {
      fuzz::g_events_pending = step.which & 1;
      if (step.which & 2) wait_for_posted(session);
      ok = true;
    } else if (step.kind() == kBulkBytes) {
      ok = arrive(bulk, pool, step, p);
    } else {
      auto record = record_of(step, p);
      uint64_t used;
      ok = executor.process(record.data(), record.size(), used);
    }
    if (!ok) return;
    executor.advance();
    p += step.bytes;
    n -= step.bytes;
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  static World* world = new World;
  if (n < 5) return 0;
  std::memcpy(&fuzz::g_failures, data, 4);
  fuzz::g_calls = 0;
  fuzz::Bulk bulk(world->pinned);
  static const std::atomic<uint32_t> turn{control::turn_word(1, control::TurnState::turn)};
  Turns turns(2);
  // Without a launcher a turn lasts for ever, but bounds what may be unfinished.
  if (n % 2) turns.gate(0)->use(&turn);
  Session session(world->cu, *world->link, world->pinned, bulk, world->account,
                  {{0, 0, {}}, {1, 1, {}}}, "");
  session.turns = n % 4 == 0 ? nullptr : &turns;
  {
    Executor executor(session);
    fuzz::begin(executor, session);
    uint64_t used;
    if (data[4] == 0xff)
      executor.process(data + 5, n - 5, used);
    else
      run_steps(executor, session, bulk, world->pinned, data + 4, n - 4);
    fuzz::g_events_pending = false;
  }
  world->release_charges(session);
  return 0;
}
