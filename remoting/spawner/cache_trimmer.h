// Keeps the caches of the tenants within their quotas: the only process that removes their files.
// It works in child processes, so that session servers start meanwhile.
//
// Thread safety: for one thread.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cache_quota.h"

namespace busbar::spawner {

constexpr int kTrimMs = 10'000;

class CacheTrimmer {
 public:
  // `folders` have one folder for each tenant. A folder that belongs neither to the owner of
  // `runtime` nor to this user is left alone: its path may lead elsewhere.
  CacheTrimmer(std::vector<std::string> folders, std::string runtime);

  // Starts to trim if the last time was at least 10 s ago and sessions have run since then.
  void work(bool sessions_run, int64_t now_ms);
  // Returns whether the child that has ended was one of the trimmer.
  bool has_ended(pid_t pid);

 private:
  void trim() const;
  bool may_trim(int folder) const;
  const std::vector<std::string> folders_;
  const std::string runtime_;
  const CacheQuotas quotas_;
  bool due_ = true;  // files of an earlier spawner's sessions
  int64_t started_ms_ = -kTrimMs;
  pid_t child_ = -1;
};

}  // namespace busbar::spawner
