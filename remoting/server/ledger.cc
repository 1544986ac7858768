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

namespace {
constexpr uint32_t kMagic = 0x4c425342;
constexpr uint32_t kVersion = 3;
constexpr int kStateField = 2;  // of /proc/PID/stat, behind the name in parentheses
constexpr int kStartTimeField = 22;

void init_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &a);
}
}  // namespace

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
  for (int field = kStateField; p && field < kStartTimeField; ++field) p = std::strchr(p + 1, ' ');
  return p ? std::strtoull(p + 1, nullptr, 10) : 0;
}

LedgerFile* Ledger::map(const std::string& path, bool create) {
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
  if (fd < 0) return nullptr;
  flock(fd, LOCK_EX);
  struct stat st;
  bool ok = fstat(fd, &st) == 0 && (create || st.st_size >= (off_t)sizeof(LedgerFile));
  if (ok && st.st_size < (off_t)sizeof(LedgerFile)) ok = ftruncate(fd, sizeof(LedgerFile)) == 0;
  void* at = ok ? mmap(nullptr, sizeof(LedgerFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                : MAP_FAILED;
  auto* file = at == MAP_FAILED ? nullptr : (LedgerFile*)at;
  if (file && create && (file->magic != kMagic || file->version != kVersion)) {
    init_mutex(file->mutex);
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

std::unique_ptr<Ledger> Ledger::create(const std::string& path, const uint64_t* limits,
                                       uint32_t partitions) {
  LedgerFile* file = map(path, true);
  if (!file) return nullptr;
  std::unique_ptr<Ledger> l(new Ledger(file));
  l->lock();
  file->partitions = std::min(partitions, wire::kMaxDevices);
  std::copy(limits, limits + file->partitions, file->limit_bytes);
  l->unlock();
  return l;
}

std::unique_ptr<Ledger> Ledger::join(const std::string& path, uint32_t client_pid) {
  LedgerFile* file = map(path, false);
  if (!file) return nullptr;
  std::unique_ptr<Ledger> l(new Ledger(file));
  l->lock();
  l->free_dead_slots();
  for (uint32_t i = 0; i < kLedgerSessions && l->slot_ < 0; ++i)
    if (file->slots[i].pid == 0) {
      file->slots[i] = {getpid(), client_pid, process_start_time(getpid()), {}};
      file->refused[i] = {getpid(), file->slots[i].start_time, {}};
      l->slot_ = (int)i;
    }
  l->unlock();
  return l->slot_ < 0 ? nullptr : std::move(l);
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
  if (pthread_mutex_lock(&file_->mutex) == EOWNERDEAD) pthread_mutex_consistent(&file_->mutex);
}

void Ledger::free_dead_slots() {
  for (auto& s : file_->slots)
    if (s.pid && process_start_time(s.pid) != s.start_time) s = {};
}

uint64_t Ledger::sum(uint32_t partition) const {
  uint64_t total = 0;
  for (auto& s : file_->slots)
    if (s.pid) total += s.charged_bytes[partition];
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
    free_dead_slots();
    ok = fits();
  }
  if (ok) file_->slots[slot_].charged_bytes[partition] += bytes;
  unlock();
  return ok;
}

void Ledger::release(uint32_t partition, uint64_t bytes) {
  if (partition >= file_->partitions) return;
  lock();
  uint64_t& charged = file_->slots[slot_].charged_bytes[partition];
  charged -= std::min(charged, bytes);
  unlock();
}

void Ledger::add_refused_call(const std::string& name) {
  lock();
  char* names = file_->refused[slot_].names;
  std::string all(names, strnlen(names, kRefusedBytes - 1));
  bool known = (" " + all + " ").find(" " + name + " ") != std::string::npos;
  if (!all.empty()) all += ' ';
  if (!known && all.size() + name.size() < kRefusedBytes)
    std::snprintf(names, kRefusedBytes, "%s%s", all.c_str(), name.c_str());
  unlock();
}

std::string Ledger::refused_calls(pid_t pid, uint64_t start_time) {
  std::string names;
  lock();
  for (auto& r : file_->refused)
    if (r.pid == pid && r.start_time == start_time)
      names.assign(r.names, strnlen(r.names, kRefusedBytes - 1));
  unlock();
  return names;
}

bool Ledger::has_session(pid_t pid) {
  lock();
  free_dead_slots();
  bool found = std::any_of(std::begin(file_->slots), std::end(file_->slots),
                           [&](auto& s) { return s.pid == pid; });
  unlock();
  return found;
}

std::vector<wire::NvmlProcess> Ledger::processes(uint32_t partition) {
  std::vector<wire::NvmlProcess> list;
  lock();
  free_dead_slots();
  for (auto& s : file_->slots)
    if (s.pid) list.push_back({s.client_pid, 0, s.charged_bytes[partition]});
  unlock();
  return list;
}

uint64_t Ledger::charged(uint32_t partition) {
  lock();
  free_dead_slots();
  uint64_t total = sum(partition);
  unlock();
  return total;
}

}  // namespace busbar::server
