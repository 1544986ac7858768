#include "launcher/ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "checked_size.h"
#include "launcher/pidfd.h"

namespace busbar::launcher {

using control::LedgerAnswer;
using control::LedgerOp;
using control::LedgerRequest;

namespace {
// States of a record. Other values stand for a free one, as in a file of another version.
constexpr uint32_t kFree = 0;
constexpr uint32_t kLive = 0x45564c35;
constexpr uint32_t kEnded = 0x444e4535;

// The sums of a ledger cannot overflow: a charge is at most a limit of 64 bits.
uint64_t room_under(uint64_t limit, uint64_t charged) {
  return charged < limit ? limit - charged : 0;
}

// Adds a name to the list, once, while there is room.
void add_name(char (&names)[control::kRefusedCallBytes], const std::string& name) {
  std::string all(names, strnlen(names, sizeof names - 1));
  bool known = (" " + all + " ").find(" " + name + " ") != std::string::npos;
  if (!all.empty()) all += ' ';
  if (known || name.empty() || all.size() + name.size() >= sizeof names) return;
  all += name;
  std::memcpy(names, all.c_str(), all.size() + 1);
}
}  // namespace

std::unique_ptr<Ledger> Ledger::open(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  auto page = SealedMemory::create("busbar-ledger", sizeof(control::LedgerPage));
  // With all of its space the file can be written on a full disk.
  bool has_space =
      fd >= 0 && posix_fallocate(fd, 0, control::kLedgerSessions * sizeof(Record)) == 0;
  if (!has_space || !page) {
    if (fd >= 0) ::close(fd);
    return nullptr;
  }
  std::unique_ptr<Ledger> ledger(new Ledger(fd, std::move(page)));
  ledger->read_records();
  return ledger;
}

Ledger::~Ledger() {
  for (auto& s : slots_)
    if (s.pidfd >= 0) ::close(s.pidfd);
  ::close(fd_);
}

// Most ledgers have few sessions: a node may open thousands of ledgers at once.
void Ledger::read_records() {
  std::vector<Record> records(slots_.size());
  ssize_t n = pread(fd_, records.data(), records.size() * sizeof(Record), 0);
  records.resize(n > 0 ? (size_t)n / sizeof(Record) : 0);
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].state != kLive) continue;
    Record& record = slots_[i].record = records[i];
    record.refused_calls[control::kRefusedCallBytes - 1] = 0;
    record.reason[sizeof record.reason - 1] = 0;
    show(slots_[i]);
  }
}

bool Ledger::write(const Slot& s) {
  return pwrite(fd_, &s.record, sizeof s.record, place_of(s)) == (ssize_t)sizeof s.record;
}

void Ledger::set_limits(const uint64_t* bytes, uint32_t partitions, const uint64_t* context_bytes) {
  for (uint32_t p = 0; p < wire::kMaxDevices; ++p) {
    limit_bytes_[p] = p < partitions ? bytes[p] : 0;
    context_bytes_[p] = p < partitions && context_bytes ? context_bytes[p] : 0;
    page().limit_bytes[p] = room_under(limit_bytes_[p], context_bytes_[p]);
    show_contexts(p);
  }
}

const Ledger::Slot* Ledger::find(const SessionId& id) const {
  auto it = std::find_if(slots_.begin(), slots_.end(), [&](auto& s) {
    return s.record.state != kFree && s.record.session == id;
  });
  return it == slots_.end() ? nullptr : &*it;
}

Ledger::Slot* Ledger::find(const SessionId& id) {
  return const_cast<Slot*>(std::as_const(*this).find(id));
}

// Returns a free slot, or one of a session that has ended.
Ledger::Slot* Ledger::unused_slot() {
  for (uint32_t state : {kFree, kEnded})
    for (auto& s : slots_)
      if (s.record.state == state) return &s;
  return nullptr;
}

bool Ledger::add(const SessionId& id, uint32_t server_pid, uint32_t client_pid, int pidfd) {
  Slot* s = find(id);
  if (s && s->pidfd >= 0) return s->record.state == kLive;
  if (!s) {
    end_dead_sessions();
    s = unused_slot();
    if (!s) return false;
    s->record = {};
    s->record.state = kLive;
    s->record.session = id;
    if (!write(*s)) {
      s->record = {};
      return false;
    }
  }
  s->pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
  auto& entry = page().sessions[index_of(*s)];
  entry.client_pid = client_pid;
  entry.server_pid = server_pid;
  show(*s);
  return true;
}

void Ledger::end_slot(Slot& s) {
  s.record.state = kEnded;
  s.record.contexts = 0;
  end_suspension(s.record, "");
  s.waits = false;
  s.asked_for = 0;
  s.asked = Slot::Asked::no;
  std::ranges::fill(s.record.charged_bytes, 0);
  if (s.pidfd >= 0) ::close(s.pidfd);
  s.pidfd = -1;
  write(s);
  page().sessions[index_of(s)].server_pid = 0;
  show(s);
}

void Ledger::end(const SessionId& id) {
  if (Slot* s = find(id)) end_slot(*s);
}

void Ledger::remove(const SessionId& id) {
  Slot* s = find(id);
  if (!s) return;
  end_slot(*s);
  s->record = {};
  write(*s);
}

void Ledger::remove_others(const std::function<bool(const SessionId&)>& is_known) {
  for (auto& s : slots_)
    if (s.record.state != kFree && !is_known(s.record.session)) remove(SessionId(s.record.session));
}

// A session whose server has ended, though the launcher has not noticed it yet.
void Ledger::end_dead_sessions() {
  for (auto& s : slots_)
    if (s.pidfd >= 0 && has_ended(s.pidfd)) end_slot(s);
}

bool Ledger::fits(uint32_t partition, uint64_t bytes) {
  if (partition >= wire::kMaxDevices) return false;
  if (bytes <= room(partition, contexts(partition))) return true;
  end_dead_sessions();
  return bytes <= room(partition, contexts(partition));
}

uint32_t Ledger::contexts(uint32_t partition) const {
  return (uint32_t)std::ranges::count_if(
      slots_, [&](auto& s) { return s.record.contexts >> partition & 1; });
}

// Returns the memory that is free with so many contexts. One is never offered to the programs, so
// that the first session has room for it.
uint64_t Ledger::room(uint32_t partition, uint32_t contexts) const {
  CheckedSize taken = CheckedSize(context_bytes_[partition]) * std::max(contexts, 1u);
  return room_under(limit_bytes_[partition], (taken + charged(partition)).value());
}

// True if the session has a context or there is room for it.
bool Ledger::has_context_room(const Record& record, uint32_t partition) {
  if (record.contexts >> partition & 1) return true;
  auto fits_another = [&] {
    CheckedSize all = CheckedSize(context_bytes_[partition]) * (contexts(partition) + 1);
    return limit_bytes_[partition] && (all + charged(partition)).within(limit_bytes_[partition]);
  };
  if (!fits_another()) end_dead_sessions();
  return fits_another();
}

// Changes a session's record as its next request says. False if there is no such request.
bool Ledger::change(Record& record, const LedgerRequest& request) {
  if (request.sequence != record.sequence + 1 || request.partition >= wire::kMaxDevices)
    return false;
  uint64_t& charged = record.charged_bytes[request.partition];
  record.sequence = request.sequence;
  record.granted = 1;
  switch ((LedgerOp)request.op) {
    case LedgerOp::reserve:
    case LedgerOp::reclaim:
      record.granted = fits(request.partition, request.bytes);
      if (record.granted) {
        charged += request.bytes;
        note_growth(record);
      }
      return true;
    case LedgerOp::release: charged -= std::min(charged, request.bytes); return true;
    case LedgerOp::open_context:
      record.granted = has_context_room(record, request.partition);
      if (record.granted) record.contexts |= 1u << request.partition;
      return true;
    case LedgerOp::refused_call:
      add_name(record.refused_calls, {request.name, strnlen(request.name, sizeof request.name)});
      return true;
    case LedgerOp::resume:  // it fits
      charged += request.bytes;
      change_suspension(record, request);
      return true;
    case LedgerOp::suspended:
    case LedgerOp::resumed:
    case LedgerOp::kept: change_suspension(record, request); return true;
    case LedgerOp::returned: return true;
  }
  return false;
}

bool Ledger::apply(const SessionId& id, const LedgerRequest& request, LedgerAnswer& answer) {
  Slot* s = find(id);
  if (!s || s->record.state != kLive) return false;
  bool is_repeated = request.sequence && request.sequence == s->record.sequence;
  if (!is_repeated && must_wait(*s, request)) {
    answer = {};
    return request.op != (uint32_t)LedgerOp::resume || note_waiting(*s);
  }
  if (!is_repeated) {
    Record before = s->record;
    if (!change(s->record, request) || !write(*s)) {
      s->record = before;
      return false;
    }
    if (request.op == (uint32_t)LedgerOp::returned) s->asked = Slot::Asked::no;
    show(*s, request.partition);
  }
  answer = {s->record.sequence, s->record.granted, 0};
  return true;
}

uint64_t Ledger::charged(uint32_t partition) const {
  uint64_t total = 0;
  for (auto& s : slots_) total += s.record.charged_bytes[partition];
  return total;
}

uint64_t Ledger::held(uint32_t partition) const {
  CheckedSize in_contexts = CheckedSize(context_bytes_[partition]) * contexts(partition);
  return (in_contexts + charged(partition)).value();
}

std::array<uint64_t, wire::kMaxDevices> Ledger::charged_by(const SessionId& id) const {
  std::array<uint64_t, wire::kMaxDevices> bytes{};
  if (const Slot* s = find(id)) std::ranges::copy(s->record.charged_bytes, bytes.begin());
  return bytes;
}

std::string Ledger::refused_calls(const SessionId& id) const {
  const Slot* s = find(id);
  return s ? s->record.refused_calls : "";
}

bool Ledger::send_page(const SessionId& id, int socket) const {
  const Slot* s = find(id);
  control::LedgerPlace place{s ? (uint32_t)index_of(*s) : 0, 0};
  return s && control::send_message(socket, control::Kind::ledger_page, &place, sizeof place,
                                    page_descriptor(), 0);
}

bool Ledger::empty() const {
  return std::ranges::none_of(slots_, [](auto& s) { return s.record.state == kLive; });
}

void Ledger::show_contexts(uint32_t partition) {
  CheckedSize further =
      CheckedSize(context_bytes_[partition]) * (std::max(contexts(partition), 1u) - 1);
  page().further_context_bytes[partition] = further.value();
}

// Writes the charges of a session to the page.
void Ledger::show(const Slot& s, uint32_t partition) {
  page().sessions[index_of(s)].charged_bytes[partition] = s.record.charged_bytes[partition];
  show_contexts(partition);
}

void Ledger::show(const Slot& s) {
  for (uint32_t p = 0; p < wire::kMaxDevices; ++p) show(s, p);
}

}  // namespace busbar::launcher
