#include "spawner/cache_trimmer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace busbar::spawner {

namespace {
constexpr uint64_t kTenantBytes = 2ull << 30, kTotalBytes = 16ull << 30;  // of each folder
constexpr int kNice = 10;                                                 // sessions go first

uint64_t bytes_from(const char* variable, uint64_t otherwise) {
  const char* value = std::getenv(variable);
  return value && *value ? std::strtoull(value, nullptr, 10) : otherwise;
}
}  // namespace

CacheTrimmer::CacheTrimmer(std::vector<std::string> folders, std::string runtime)
    : folders_(std::move(folders)),
      runtime_(std::move(runtime)),
      quotas_{bytes_from("BUSBAR_CACHE_TENANT_BYTES", kTenantBytes),
              bytes_from("BUSBAR_CACHE_BYTES", kTotalBytes)} {}

void CacheTrimmer::work(bool sessions_run, int64_t now_ms) {
  due_ = due_ || sessions_run;
  if (!due_ || child_ > 0 || now_ms - started_ms_ < kTrimMs) return;
  due_ = sessions_run;
  started_ms_ = now_ms;
  child_ = fork();
  if (child_ != 0) return;
  trim();
  _exit(0);
}

bool CacheTrimmer::has_ended(pid_t pid) {
  if (pid != child_) return false;
  child_ = -1;
  return true;
}

bool CacheTrimmer::may_trim(int folder) const {
  struct stat st, runtime;
  return fstat(folder, &st) == 0 && stat(runtime_.c_str(), &runtime) == 0 &&
         (st.st_uid == runtime.st_uid || st.st_uid == geteuid());
}

void CacheTrimmer::trim() const {
  (void)!nice(kNice);
  for (const auto& path : folders_) {
    int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) continue;
    if (may_trim(folder)) trim_tenants(folder, quotas_);
    close(folder);
  }
}

}  // namespace busbar::spawner
