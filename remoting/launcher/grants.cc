#include "launcher/grants.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "checked_size.h"
#include "control/failpoints.h"
#include "control/hex.h"
#include "control/log.h"
#include "transport/cleanse.h"

namespace busbar::launcher {

using control::hex;

namespace {
constexpr int64_t kClockToleranceSeconds = 60;

int64_t boottime_seconds() {
  timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return t.tv_sec;
}

// Precedes the message in the file. A launcher that starts later in the same boot continues the
// clock of the appliance from it.
struct Received {
  char boot[40];
  int64_t boottime;
};

Received received_now() {
  Received r{};
  if (FILE* f = std::fopen("/proc/sys/kernel/random/boot_id", "r")) {
    if (!std::fgets(r.boot, sizeof r.boot, f)) r.boot[0] = 0;
    std::fclose(f);
  }
  r.boottime = boottime_seconds();
  return r;
}

// Replaces the file atomically.
bool write_file(const std::string& path, const Received& head, const void* p, size_t n) {
  std::string temporary = path + ".new";
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool ok = write(fd, &head, sizeof head) == (ssize_t)sizeof head &&
            write(fd, p, n) == (ssize_t)n && fsync(fd) == 0;
  close(fd);
  return ok && rename(temporary.c_str(), path.c_str()) == 0;
}

// Failpoint: the launcher is killed at a step of a change that resizes allocations.
void reach(const char* step, const std::set<std::string>& resized) {
  static const char* killed_at = control::failpoint("GRANTS");
  if (killed_at && !std::strcmp(killed_at, step) && !resized.empty()) kill(getpid(), SIGKILL);
}

// Failpoint: the arbiters keep the shares of allocations that they know.
bool are_shares_kept() {
  static const bool are_kept = control::failpoint("KEPT_SHARES");
  return are_kept;
}

bool older(uint64_t epoch, uint64_t counter, const control::Allocation& a) {
  return epoch < a.fence_epoch || (epoch == a.fence_epoch && counter < a.fence_counter);
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}
}  // namespace

uint64_t offered_bytes(const control::Allocation& a, uint32_t p) {
  uint64_t bytes = a.partition[p].memory_bytes, context = a.context_bytes[p];
  return bytes > context ? bytes - context : 0;
}

std::string lack_of_memory(const control::Allocation& a) {
  for (uint32_t p = 0; p < a.partitions; ++p)
    if (a.context_bytes[p] && !offered_bytes(a, p))
      return "a partition of " + mebibytes(a.partition[p].memory_bytes) +
             " has no room for a CUDA context of " + mebibytes(a.context_bytes[p]) +
             "; allocate more memory";
  return "";
}

bool Grants::load() {
  FILE* f = std::fopen((runtime_ + "/grants").c_str(), "rb");
  if (!f) return false;
  Received then{}, now = received_now();
  std::vector<uint8_t> bytes(control::kMaxMessageBytes);
  bool has_head = std::fread(&then, sizeof then, 1, f) == 1;
  bytes.resize(has_head ? std::fread(bytes.data(), 1, bytes.size(), f) : 0);
  std::fclose(f);
  MutexLock lock(mutex_);
  auto stored = parse(bytes.data(), bytes.size());
  if (!stored || !apply(*stored)) return false;
  // After a reboot the length of the outage is unknown: the clock continues from its last value
  // until the agent sends a new one.
  if (!std::memcmp(then.boot, now.boot, sizeof now.boot) && then.boottime <= now.boottime)
    received_boottime_ = then.boottime;
  return true;
}

// They are stored before sessions see them: a launcher that starts after a kill must not bring back
// larger limits that a session has seen end.
bool Grants::replace(const uint8_t* p, size_t n) {
  MutexLock lock(mutex_);
  auto received = parse(p, n);
  if (!received) return false;
  uint64_t before = head_.generation;
  auto resized = resized_by(*received);
  bool stored = write_file(runtime_ + "/grants", received_now(), p, n);
  reach("stored", resized);
  bool complete = apply(*received);
  reach("shown", resized);
  resized_.merge(resized);
  if (!complete) return false;
  if (stored) return true;
  head_.generation = before;  // they are in force, but the agent must send them again
  return false;
}

std::optional<Grants::Parsed> Grants::parse(const uint8_t* p, size_t n) {
  Parsed parsed;
  control::Grants& head = parsed.head;
  if (n < sizeof head) return std::nullopt;
  std::memcpy(&head, p, sizeof head);
  CheckedSize bytes = CheckedSize(head.allocation_count) * sizeof(control::Allocation);
  if (head.key_count > control::kMaxKeys || n - sizeof head != bytes.value()) return std::nullopt;
  for (uint32_t i = 0; i < head.allocation_count; ++i) {
    control::Allocation g;
    std::memcpy(&g, p + sizeof head + i * sizeof g, sizeof g);
    std::string id = hex(g.id, 16);
    if (g.partitions == 0 || g.partitions > wire::kMaxDevices)
      control::log_line("launcher", "grant left out", id,
                        std::to_string(g.partitions) + " partitions");
    else
      parsed.grants[id] = g;
  }
  return parsed;
}

bool Grants::set_limits(const std::string& id, const control::Allocation& a) {
  uint64_t bytes[wire::kMaxDevices];
  for (uint32_t k = 0; k < a.partitions; ++k) bytes[k] = a.partition[k].memory_bytes;
  return ledgers_.set_limits(id, bytes, a.partitions, a.context_bytes);
}

std::set<std::string> Grants::resized_by(const Parsed& received) const {
  std::set<std::string> resized;
  for (auto& [id, before] : by_allocation_) {
    auto found = received.grants.find(id);
    if (found == received.grants.end()) continue;
    const control::Allocation& now = found->second;
    for (uint32_t k = 0; k < std::min(before.partitions, now.partitions); ++k)
      if (offered_bytes(before, k) != offered_bytes(now, k)) resized.insert(id);
  }
  return resized;
}

bool Grants::apply(const Parsed& received) {
  control::Grants head = received.head;
  std::map<std::string, control::Allocation> grants;
  bool complete = true;
  for (auto& [id, g] : received.grants) {
    if (set_limits(id, g))
      grants[id] = g;
    else
      complete = false;  // the disk is full: the others are applied, and the agent tries again
  }
  auto is_granted = [&](const std::string& id) {
    return grants.count(id) > 0;
  };
  ledgers_.keep(is_granted);
  for (auto& [id, grant] : grants)
    if (!are_shares_kept() || !by_allocation_.count(id)) arbiters_.set_allocation(id, grant);
  arbiters_.keep(is_granted);
  by_allocation_ = std::move(grants);
  if (!complete) head.generation = head_.generation;
  head_ = head;
  received_boottime_ = boottime_seconds();
  received_ = true;
  return complete;
}

// The clock of the appliance, continued from the newest message. The wall clock of the node is not
// used, because it may be wrong.
int64_t Grants::appliance_seconds() const {
  return head_.appliance_seconds + boottime_seconds() - received_boottime_;
}

// Returns why a ticket with a valid signature is refused; empty if it is not.
std::string Grants::reason_against(const Ticket& ticket) const {
  const TicketBody& b = ticket.body;
  if (std::memcmp(b.node, head_.node_id, 16)) return "the ticket is for another node";
  int64_t now = appliance_seconds();
  if (now > b.expires_seconds || now + kClockToleranceSeconds < b.issued_seconds)
    return "the ticket has expired";
  auto it = by_allocation_.find(hex(b.allocation, 16));
  if (it == by_allocation_.end()) return "the ticket's allocation is not granted on this node";
  const control::Allocation& a = it->second;
  if (older(b.fence_epoch, b.fence_counter, a))
    return "the ticket is older than the allocation's fence";
  auto same_gpu = [](const control::Partition& x, const control::Partition& y) {
    return !std::memcmp(x.gpu_uuid, y.gpu_uuid, sizeof x.gpu_uuid);
  };
  if (b.partitions != a.partitions ||
      !std::equal(a.partition, a.partition + a.partitions, ticket.partition, same_gpu))
    return "the ticket's GPUs differ from the grant's";
  return "";
}

uint32_t Grants::copy_keys(control::TicketKey* keys) {
  MutexLock lock(mutex_);
  std::copy_n(head_.keys, head_.key_count, keys);
  return head_.key_count;
}

// Strangers choose how many signatures are verified, so that happens without the mutex.
bool Grants::admit(const uint8_t* ticket, size_t n, Ticket& out, control::Allocation& grant,
                   std::string& reason) {
  control::TicketKey keys[control::kMaxKeys];
  transport::Cleanse cleanse(keys);
  uint32_t count = copy_keys(keys);
  if (!read_ticket(ticket, n, keys, count, out, reason)) return false;
  MutexLock lock(mutex_);
  reason = reason_against(out);
  if (!reason.empty()) return false;
  grant = by_allocation_[hex(out.body.allocation, 16)];
  return true;
}

bool Grants::permits(const uint8_t* allocation, uint64_t epoch, uint64_t counter) {
  MutexLock lock(mutex_);
  if (!received_) return true;  // sessions continue until the first message
  auto it = by_allocation_.find(hex(allocation, 16));
  return it != by_allocation_.end() && !older(epoch, counter, it->second);
}

std::map<GpuSet, size_t> Grants::expected_programs() {
  MutexLock lock(mutex_);
  std::map<GpuSet, size_t> programs;
  for (auto& [id, grant] : by_allocation_) programs[gpus_of(grant)] = 0;
  GpuSet counted;
  for (auto& [gpus, count] : programs) {
    for (auto& uuid : gpus) count += counted.insert(uuid).second ? 1 : 0;
    count = std::max<size_t>(count, 1);
  }
  return programs;
}

std::vector<control::Holding> Grants::over() {
  MutexLock lock(mutex_);
  std::vector<control::Holding> found;
  for (auto& [id, a] : by_allocation_) {
    auto held = ledgers_.held(id, a.partitions);
    bool is_over = false;
    for (uint32_t p = 0; p < a.partitions; ++p) is_over |= held[p] > a.partition[p].memory_bytes;
    if (!is_over) continue;
    control::Holding& holding = found.emplace_back();
    std::copy_n(a.id, sizeof holding.allocation, holding.allocation);
    std::ranges::copy(held, holding.held_bytes);
  }
  return found;
}

std::set<std::string> Grants::take_resized() {
  MutexLock lock(mutex_);
  return std::exchange(resized_, {});
}

uint64_t Grants::generation() {
  MutexLock lock(mutex_);
  return head_.generation;
}

}  // namespace busbar::launcher
