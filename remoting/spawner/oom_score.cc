#include "spawner/oom_score.h"

#include <algorithm>
#include <fstream>

namespace busbar::spawner {

namespace {
constexpr char kOomScoreFile[] = "/proc/self/oom_score_adj";
}

bool take_session_oom_score() {
  std::ofstream file(kOomScoreFile);
  file << std::max(kSessionOomScore, own_oom_score()) << std::flush;
  return file.good();
}

int own_oom_score() {
  int score = 0;
  std::ifstream(kOomScoreFile) >> score;
  return score;
}

}  // namespace busbar::spawner
