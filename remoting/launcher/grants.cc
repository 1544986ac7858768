#include "launcher/grants.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace busbar::launcher {

namespace {
int64_t monotonic_seconds() {
  timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return t.tv_sec;
}

// Before the message in the file: when it came, so that a launcher started later goes on with the
// appliance's clock.
struct Received {
  char boot[40];
  int64_t monotonic;
};

Received received_now() {
  Received r{};
  if (FILE* f = std::fopen("/proc/sys/kernel/random/boot_id", "r")) {
    if (!std::fgets(r.boot, sizeof r.boot, f)) r.boot[0] = 0;
    std::fclose(f);
  }
  r.monotonic = monotonic_seconds();
  return r;
}

bool write_file(const std::string& path, const Received& head, const void* p, size_t n) {
  std::string fresh = path + ".new";
  int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool ok = write(fd, &head, sizeof head) == (ssize_t)sizeof head &&
            write(fd, p, n) == (ssize_t)n && fsync(fd) == 0;
  close(fd);
  return ok && rename(fresh.c_str(), path.c_str()) == 0;
}
}  // namespace

std::string hex(const uint8_t* p, size_t n) {
  std::string s;
  char two[3];
  for (size_t i = 0; i < n; ++i) {
    std::snprintf(two, sizeof two, "%02x", p[i]);
    s += two;
  }
  return s;
}

bool Grants::load() {
  FILE* f = std::fopen((runtime_ + "/grants").c_str(), "rb");
  if (!f) return false;
  Received then{}, now = received_now();
  std::vector<uint8_t> bytes(control::kMaxMessageBytes);
  bytes.resize(
      std::fread(&then, sizeof then, 1, f) == 1 ? std::fread(bytes.data(), 1, bytes.size(), f) : 0);
  std::fclose(f);
  std::lock_guard lock(mutex_);
  if (!apply(bytes.data(), bytes.size())) return false;
  // Another boot: how long the machine was off is not known, and the clock stands where it was
  // until the agent speaks.
  if (!std::memcmp(then.boot, now.boot, sizeof now.boot) && then.monotonic <= now.monotonic)
    received_monotonic_ = then.monotonic;
  return true;
}

bool Grants::replace(const uint8_t* p, size_t n) {
  std::lock_guard lock(mutex_);
  return apply(p, n) && write_file(runtime_ + "/grants", received_now(), p, n);
}

bool Grants::apply(const uint8_t* p, size_t n) {
  control::Grants head;
  if (n < sizeof head) return false;
  std::memcpy(&head, p, sizeof head);
  if (head.key_count > control::kMaxKeys || head.allocation_count > control::kMaxAllocations ||
      n != sizeof head + head.allocation_count * sizeof(control::Allocation))
    return false;
  std::map<std::string, Grant> fresh;
  for (uint32_t i = 0; i < head.allocation_count; ++i) {
    Grant g;
    std::memcpy(&g.allocation, p + sizeof head + i * sizeof g.allocation, sizeof g.allocation);
    if (g.allocation.partitions == 0 || g.allocation.partitions > wire::kMaxDevices) return false;
    std::string id = hex(g.allocation.id, 16);
    g.ledger_path = runtime_ + "/ledgers/" + id;
    uint64_t limits[wire::kMaxDevices];
    for (uint32_t k = 0; k < g.allocation.partitions; ++k)
      limits[k] = g.allocation.partition[k].memory_bytes;
    ledgers_[id].reset(server::Ledger::create(g.ledger_path, limits, g.allocation.partitions));
    if (!ledgers_[id]) return false;
    fresh[id] = g;
  }
  for (auto it = ledgers_.begin(); it != ledgers_.end();) {
    if (fresh.count(it->first)) {
      ++it;
      continue;
    }
    unlink((runtime_ + "/ledgers/" + it->first).c_str());
    it = ledgers_.erase(it);
  }
  by_allocation_ = std::move(fresh);
  head_ = head;
  received_monotonic_ = monotonic_seconds();
  known_ = true;
  return true;
}

// The appliance's clock, carried on from the last message; the node's own wall clock is never
// asked.
int64_t Grants::appliance_seconds() const {
  return head_.appliance_seconds + monotonic_seconds() - received_monotonic_;
}

bool Grants::admit(const uint8_t* ticket, size_t n, Ticket& out, Grant& grant, std::string& why) {
  std::lock_guard lock(mutex_);
  if (!read_ticket(ticket, n, head_.keys, head_.key_count, out, why)) return false;
  const TicketBody& b = out.body;
  if (std::memcmp(b.node, head_.node_id, 16)) {
    why = "the ticket is for another node";
    return false;
  }
  int64_t now = appliance_seconds();
  if (now > b.expires_seconds || now + 60 < b.issued_seconds) {
    why = "the ticket has expired";
    return false;
  }
  auto it = by_allocation_.find(hex(b.allocation, 16));
  if (it == by_allocation_.end()) {
    why = "the ticket's allocation is not granted here";
    return false;
  }
  const control::Allocation& a = it->second.allocation;
  if (b.fence_epoch < a.fence_epoch ||
      (b.fence_epoch == a.fence_epoch && b.fence_counter < a.fence_counter)) {
    why = "the ticket is older than the allocation's fence";
    return false;
  }
  if (b.partitions != a.partitions ||
      std::memcmp(out.partition, a.partition, b.partitions * sizeof(control::Partition))) {
    why = "the ticket's partitions differ from the grant's";
    return false;
  }
  grant = it->second;
  return true;
}

bool Grants::holds(const uint8_t* allocation, uint64_t epoch, uint64_t counter) {
  std::lock_guard lock(mutex_);
  if (!known_) return true;  // nothing was said yet: sessions go on
  auto it = by_allocation_.find(hex(allocation, 16));
  if (it == by_allocation_.end()) return false;
  const control::Allocation& a = it->second.allocation;
  return epoch > a.fence_epoch || (epoch == a.fence_epoch && counter >= a.fence_counter);
}

std::string Grants::refused(const uint8_t* allocation, pid_t pid, uint64_t start_time) {
  std::lock_guard lock(mutex_);
  auto it = ledgers_.find(hex(allocation, 16));
  return it == ledgers_.end() ? "" : it->second->refused(pid, start_time);
}

uint64_t Grants::generation() {
  std::lock_guard lock(mutex_);
  return head_.generation;
}

}  // namespace busbar::launcher
