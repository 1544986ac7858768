#include "client/ticket_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "control/hex.h"
#include "transport/futex.h"

namespace busbar::client {

static std::string from_base64(const std::string& text) {
  std::string out(text.size(), '\0');  // base64 needs fewer bytes than it has characters
  int n = EVP_DecodeBlock((unsigned char*)out.data(), (const unsigned char*)text.data(),
                          (int)text.size());
  if (n < 0) return "";
  for (size_t i = text.size(); i > 0 && text[i - 1] == '='; --i) --n;
  out.resize((size_t)n);
  return out;
}

static bool has_checksum(const std::string& text) {
  return text.rfind("sum ", 0) == 0;
}

static std::string read_text(int fd) {
  constexpr size_t kMaxBytes = 1 << 20;
  std::string text;
  char buffer[4096];
  ssize_t n;
  // The descriptor may belong to the program: its position stays.
  while (text.size() < kMaxBytes &&
         (n = ::pread(fd, buffer, sizeof buffer, (off_t)text.size())) > 0)
    text.append(buffer, (size_t)n);
  return text;
}

// Return whether the text is whole: `busbar run` writes a checksum of the lines that follow.
static bool is_whole(const std::string& text) {
  constexpr size_t kWord = 4, kDigits = 64;
  if (!has_checksum(text)) return true;
  size_t begin = kWord + kDigits + 1;
  if (text.size() < begin) return false;
  uint8_t hash[SHA256_DIGEST_LENGTH];
  SHA256((const uint8_t*)text.data() + begin, text.size() - begin, hash);
  return text.compare(kWord, kDigits, control::hex(hash, sizeof hash)) == 0;
}

// Reads the text of a file that `busbar run` may be replacing. Empty if it is never whole.
static std::string read_whole_text(int fd) {
  constexpr int kAttempts = 100, kPauseMs = 10;
  timespec pause = transport::milliseconds(kPauseMs);
  for (int i = 0; i < kAttempts; ++i) {
    std::string text = read_text(fd);
    if (is_whole(text)) return text;
    nanosleep(&pause, nullptr);
  }
  return "";
}

// ---- files of other PID namespaces ----
static bool is_private_regular(const struct stat& st) {
  return S_ISREG(st.st_mode) && !(st.st_mode & 077);
}

// Reads the ticket from a descriptor, if it is one of `busbar run`.
static bool read_descriptor(int fd, std::string& text) {
  struct stat st{};
  if (fd < 0 || fstat(fd, &st) || !is_private_regular(st)) return false;
  if (!has_checksum(read_text(fd))) return false;
  text = read_whole_text(fd);
  return !text.empty();
}

// Files of other kinds are not opened: that alone has effects on a terminal, a pipe or a device.
static bool read_descriptor_of(pid_t process, int number, std::string& text) {
  std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  struct stat st{};
  if (stat(path.c_str(), &st) || !is_private_regular(st)) return false;
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  bool found = read_descriptor(fd, text);
  if (fd >= 0) ::close(fd);
  return found;
}

// Return the parent of a process; 0 if there is none.
static pid_t parent_of(pid_t process) {
  int parent = 0;
  FILE* f = std::fopen(("/proc/" + std::to_string(process) + "/status").c_str(), "re");
  if (!f) return 0;
  char line[256];
  while (std::fgets(line, sizeof line, f))
    if (std::sscanf(line, "PPid: %d", &parent) == 1) break;
  std::fclose(f);
  return parent;
}

// The path comes first: a program may have inherited a descriptor of this number from another
// `busbar run`. Where the path is unknown, in a PID namespace, the program reads the descriptor
// that it inherited, with the same number; if its parent did not pass it on, that of an ancestor.
static bool read_inherited(const std::string& path, std::string& text) {
  constexpr int kMaxAncestors = 64;
  int process, number, end = 0;
  if (std::sscanf(path.c_str(), "/proc/%d/fd/%d%n", &process, &number, &end) != 2 ||
      (size_t)end != path.size())
    return false;
  if (read_descriptor_of(process, number, text) || read_descriptor(number, text)) return true;
  pid_t ancestor = getppid();
  for (int i = 0; i < kMaxAncestors && ancestor > 0; ++i, ancestor = parent_of(ancestor))
    if (read_descriptor_of(ancestor, number, text)) return true;
  return false;
}

// Reads the text of the file. Fails if other users can read the private key in it.
static bool read_private_file(const std::string& path, std::string& text, std::string& error) {
  if (read_inherited(path, text)) return true;
  // In another PID namespace the path may name a terminal or a pipe.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat st{};
  if (fd < 0 || fstat(fd, &st)) {
    error = "cannot read the ticket file " + path +
            "; check that its `busbar run` is running, or start `busbar run` in this container";
    if (fd >= 0) ::close(fd);
    return false;
  }
  text = read_whole_text(fd);
  ::close(fd);
  if (st.st_mode & 077) {
    error = "other users can access the ticket file " + path + "; run: chmod 600 " + path;
    return false;
  }
  return true;
}

static void read_key(std::istringstream& words, transport::Secret& out) {
  std::string text;
  words >> text;
  std::string key = from_base64(text);
  if (key.size() == out.size()) std::copy(key.begin(), key.end(), out.begin());
}

// Each line is a keyword and its values. The lines `endpoint`, `node_key` and `ticket` belong to
// the last `node` line.
static void parse(const std::string& text, TicketFile& out) {
  std::istringstream lines(text);
  std::string line, word;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    words >> word;
    if (word == "key") {
      read_key(words, out.private_key);
    } else if (word == "node") {
      out.nodes.emplace_back();
      std::getline(words >> std::ws, out.nodes.back().node_name);
    } else if (word == "endpoint" && !out.nodes.empty()) {
      Endpoint e;
      words >> e.address >> e.port;
      out.nodes.back().endpoints.push_back(e);
    } else if (word == "node_key" && !out.nodes.empty()) {
      read_key(words, out.nodes.back().node_key);
    } else if (word == "ticket" && !out.nodes.empty()) {
      words >> word;
      out.nodes.back().ticket = from_base64(word);
    }
  }
}

bool read_ticket_file(TicketFile& out, std::string& error) {
  const char* path = std::getenv("BUSBAR_TICKET_FILE");
  if (!path || !*path) {
    error = "no GPU is allocated to this program; start it with `busbar run -n 1 -p 25 -- PROGRAM`";
    return false;
  }
  std::string text;
  if (!read_private_file(path, text, error)) return false;
  parse(text, out);
  if (out.nodes.empty()) {
    error = std::string("the ticket file ") + path + " is incomplete; restart its `busbar run`";
    return false;
  }
  return true;
}

}  // namespace busbar::client
