// Turns on GPUs: the page that the launcher writes for one session, and the messages of its session
// server to the arbiter. ADR 83.
//
// Only the launcher can write the page. A session sends notices over a SOCK_SEQPACKET connection
// that the launcher gives it; a message of the launcher on that connection means that the page has
// changed.
//
// Thread safety: constant layouts; the page is read by any thread of any process.
#pragma once
#include <atomic>
#include <cstdint>

#include "wire/format.h"

namespace busbar::control {

enum class TurnState : uint32_t {
  closed = 0,  // no work may be submitted
  turn = 1,    // work may be submitted, with a bounded amount of it unfinished
  open = 2,    // no other allocation uses the GPU: work needs no turn
  single =
      3,  // the turn is over, but one record may be submitted: work on other GPUs may wait for it
};
constexpr uint32_t kTurnStateBits = 2;

// A word of the page: the number of the turn above its state.
constexpr uint32_t turn_word(uint32_t turn, TurnState state) {
  return turn << kTurnStateBits | (uint32_t)state;
}
constexpr TurnState state_of_word(uint32_t word) {
  return (TurnState)(word & ((1u << kTurnStateBits) - 1));
}
constexpr uint32_t turn_of_word(uint32_t word) {
  return word >> kTurnStateBits;
}
// As often as a turn's number repeats, no message of that turn is under way.
constexpr uint32_t kTurnNumbers = 1u << (32 - kTurnStateBits);

struct TurnPage {
  std::atomic<uint32_t> word[wire::kMaxDevices];  // by partition
  // Counts the beats of the arbiter, one each kBeatMs while the page of any session is not open.
  // 0: a launcher without beats.
  std::atomic<uint32_t> beat;
};
constexpr int kBeatMs = 250;
static_assert(std::atomic<uint32_t>::is_always_lock_free);

enum class TurnOp : uint32_t {
  want = 1,     // work waits for a turn
  drained = 2,  // the work of `turn` has ended, and no more of it follows
};
struct TurnNotice {
  uint32_t op;  // TurnOp
  uint32_t partition;
  uint32_t turn;   // of drained
  uint32_t wants;  // of drained: 1 if work waits for the next turn
};
static_assert(sizeof(TurnNotice) == 16);

}  // namespace busbar::control
