#include "client/ticket_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

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

static std::string read_text(int fd) {
  constexpr size_t kMaxBytes = 1 << 20;
  std::string text;
  char buffer[4096];
  ssize_t n;
  while (text.size() < kMaxBytes && (n = ::read(fd, buffer, sizeof buffer)) > 0)
    text.append(buffer, (size_t)n);
  return text;
}

// Reads the text of the file. Fails if other users can read the private key in it.
static bool read_private_file(const std::string& path, std::string& text, std::string& error) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat st{};
  if (fd < 0 || fstat(fd, &st)) {
    error = "cannot read the ticket file " + path + "; check that its `busbar run` is running";
    if (fd >= 0) ::close(fd);
    return false;
  }
  text = read_text(fd);
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
      words >> out.nodes.back().node_id;
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
