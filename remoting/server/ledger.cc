#include "server/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace busbar::server {

constexpr uint32_t kMagic = 0x4c425342, kVersion = 3;

uint64_t process_start_time(pid_t pid) {
  char path[64], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* p = std::strrchr(text, ')');
  if (!p || p[1] != ' ' || p[2] == 'Z') return 0;
  for (int field = 2; p && field < 22; ++field) p = std::strchr(p + 1, ' ');
  return p ? std::strtoull(p + 1, nullptr, 10) : 0;
}

LedgerFile* Ledger::map(const std::string& path, bool make) {
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0), 0600);
  if (fd < 0) return nullptr;
  flock(fd, LOCK_EX);
  struct stat st;
  bool ok = fstat(fd, &st) == 0 && (make || st.st_size >= (off_t)sizeof(LedgerFile));
  if (ok && st.st_size < (off_t)sizeof(LedgerFile)) ok = ftruncate(fd, sizeof(LedgerFile)) == 0;
  void* at = ok ? mmap(nullptr, sizeof(LedgerFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                : MAP_FAILED;
  auto* file = at == MAP_FAILED ? nullptr : (LedgerFile*)at;
  if (file && make && (file->magic != kMagic || file->version != kVersion)) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&file->mutex, &a);
    file->version = kVersion;
    file->magic = kMagic;
  }
  flock(fd, LOCK_UN);
  ::close(fd);
  if (file && file->magic != kMagic) {
    munmap(at, sizeof(LedgerFile));
    return nullptr;
  }
  return file;
}

Ledger* Ledger::create(const std::string& path, const uint64_t* limits, uint32_t partitions) {
  LedgerFile* file = map(path, true);
  if (!file) return nullptr;
  auto* l = new Ledger;
  l->file_ = file;
  l->lock();
  file->partitions = std::min(partitions, wire::kMaxDevices);
  std::copy(limits, limits + file->partitions, file->limit_bytes);
  l->unlock();
  return l;
}

Ledger* Ledger::join(const std::string& path, uint32_t client_pid) {
  LedgerFile* file = map(path, false);
  if (!file) return nullptr;
  auto* l = new Ledger;
  l->file_ = file;
  l->lock();
  l->reap();
  for (uint32_t i = 0; i < kLedgerSessions && l->slot_ < 0; ++i)
    if (file->slots[i].pid == 0) {
      file->slots[i] = {getpid(), client_pid, process_start_time(getpid()), {}};
      file->refused[i] = {getpid(), file->slots[i].start_time, {}};
      l->slot_ = (int)i;
    }
  l->unlock();
  if (l->slot_ < 0) {
    delete l;
    return nullptr;
  }
  return l;
}

Ledger::~Ledger() {
  if (slot_ >= 0) {
    lock();
    file_->slots[slot_] = {};
    unlock();
  }
  munmap(file_, sizeof(LedgerFile));
}

void Ledger::lock() {
  if (pthread_mutex_lock(&file_->mutex) == EOWNERDEAD)
    pthread_mutex_consistent(&file_->mutex);  // totals are summed afresh each time
}

void Ledger::reap() {
  for (auto& s : file_->slots)
    if (s.pid && process_start_time(s.pid) != s.start_time) s = {};
}

uint64_t Ledger::sum(uint32_t partition) const {
  uint64_t total = 0;
  for (auto& s : file_->slots)
    if (s.pid) total += s.leased_bytes[partition];
  return total;
}

bool Ledger::reserve(uint32_t partition, uint64_t bytes) {
  if (partition >= file_->partitions) return false;
  lock();
  uint64_t limit = file_->limit_bytes[partition];
  auto fits = [&] {
    return bytes <= limit && sum(partition) <= limit - bytes;
  };
  bool ok = fits();
  if (!ok) {
    reap();
    ok = fits();
  }
  if (ok) file_->slots[slot_].leased_bytes[partition] += bytes;
  unlock();
  return ok;
}

void Ledger::give_back(uint32_t partition, uint64_t bytes) {
  if (partition >= file_->partitions) return;
  lock();
  uint64_t& held = file_->slots[slot_].leased_bytes[partition];
  held -= std::min(held, bytes);
  unlock();
}

void Ledger::note_refused(const std::string& name) {
  lock();
  char* names = file_->refused[slot_].names;
  std::string all = strnlen(names, kRefusedBytes - 1)
                        ? std::string(names, strnlen(names, kRefusedBytes - 1)) + " "
                        : "";
  if ((" " + all).find(" " + name + " ") == std::string::npos &&
      all.size() + name.size() < kRefusedBytes)
    std::snprintf(names, kRefusedBytes, "%s%s", all.c_str(), name.c_str());
  unlock();
}

std::string Ledger::refused(pid_t pid, uint64_t start_time) {
  std::string names;
  lock();
  for (auto& r : file_->refused)
    if (r.pid == pid && r.start_time == start_time)
      names.assign(r.names, strnlen(r.names, kRefusedBytes - 1));
  unlock();
  return names;
}

bool Ledger::holds(pid_t pid) {
  lock();
  reap();
  bool found = std::any_of(std::begin(file_->slots), std::end(file_->slots),
                           [&](auto& s) { return s.pid == pid; });
  unlock();
  return found;
}

std::vector<wire::NvmlProcess> Ledger::processes(uint32_t partition) {
  std::vector<wire::NvmlProcess> list;
  lock();
  reap();
  for (auto& s : file_->slots)
    if (s.pid) list.push_back({s.client_pid, 0, s.leased_bytes[partition]});
  unlock();
  return list;
}

uint64_t Ledger::leased(uint32_t partition) {
  lock();
  reap();
  uint64_t total = sum(partition);
  unlock();
  return total;
}

}  // namespace busbar::server
