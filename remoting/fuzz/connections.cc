// libFuzzer target: the first bytes of connections to the data port, before TLS.
//
// The first byte of the input has flags, the second one is the number of bytes that arrive first.
// Then come the bytes of the connection. The target can write a valid preamble before them, and
// sign them: a ticket with its key, a request for a bulk connection with the key of the session.
#include <sys/epoll.h>

#include <functional>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#define private public  // the target takes the place of Reception's loop
#include "launcher/reception.h"
#undef private

#include "fuzz/connection.h"
#include "fuzz/ticket_key.h"
#include "launcher/first_bytes.h"
#include "launcher/ticket.h"
#include "transport/opening_key.h"
#include "transport/session_keys.h"

using namespace busbar;
using namespace busbar::launcher;

namespace {
enum Flag : uint8_t { kPreamble = 1, kBulk = 2, kSign = 4 };
constexpr uint8_t kTls[] = {22, 3, 1, 0, 4, 1, 0, 0, 0};  // a record, which follows a ticket
const transport::Secret kAttachKey{7};

// Returns the bytes of the connection up to TLS; `authentic` tells whether the target signed them.
std::vector<uint8_t> bytes_of(uint8_t flags, const uint8_t* p, size_t n, bool& authentic) {
  std::vector<uint8_t> body(p, p + n);
  bool bulk = flags & kBulk;
  authentic = flags & kPreamble && flags & kSign;
  if (authentic && bulk) {
    wire::BulkRequest request{};
    std::copy_n(p, std::min(n, sizeof request), (uint8_t*)&request);
    transport::add_proof(request, kAttachKey);
    body.assign((uint8_t*)&request, (uint8_t*)(&request + 1));
  } else if (authentic) {
    authentic = fuzz::sign(body);
  }
  if (!(flags & kPreamble)) return body;
  wire::Preamble head{
      {}, (uint32_t)(bulk ? wire::Purpose::bulk : wire::Purpose::open), (uint32_t)body.size()};
  std::memcpy(head.magic, wire::kMagic, sizeof head.magic);
  body.insert(body.begin(), (uint8_t*)&head, (uint8_t*)(&head + 1));
  return body;
}

// A client key that anybody could use opens nothing.
void check_opening_key(const Ticket& ticket, const FirstBytes& first) {
  transport::Secret own, client, key;
  std::memcpy(own.data(), ticket.node_secret, own.size());
  std::memcpy(client.data(), ticket.body.client_key, client.size());
  bool derived = transport::derive_opening_key(own, client, first.ticket, first.ticket_bytes, key);
  if (derived && client == transport::Secret{}) abort();
}

// Does what the data port does with complete first bytes, up to the first check of a key.
void check(const std::vector<uint8_t>& received, bool authentic) {
  wire::Preamble head;
  if (missing_bytes(received) || received.size() > sizeof head + wire::kMaxTicketBytes) abort();
  std::memcpy(&head, received.data(), sizeof head);
  if (received.size() != sizeof head + head.bytes) abort();
  auto first = read_first_bytes(received);
  if (!first) return;
  bool accepted;
  if (first->purpose == wire::Purpose::open) {
    Ticket ticket;
    std::string reason;
    control::TicketKey key = fuzz::ticket_key();
    accepted = read_ticket(first->ticket, first->ticket_bytes, &key, 1, ticket, reason);
    if (accepted) check_opening_key(ticket, *first);
  } else {
    accepted = transport::has_valid_proof(first->bulk, kAttachKey);
  }
  if (accepted && !authentic) abort();
}

// Checks that the connection still has all that the target has not received.
void check_rest(int fd, const std::vector<uint8_t>& sent, size_t received) {
  std::vector<uint8_t> rest(sent.size() + 1);
  ssize_t n = recv(fd, rest.data(), rest.size(), MSG_DONTWAIT);
  if (n != (ssize_t)(sent.size() - received) ||
      std::memcmp(rest.data(), sent.data() + received, (size_t)n))
    abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n < 2) return 0;
  bool authentic;
  auto sent = bytes_of(data[0], data + 2, n - 2, authentic);
  sent.insert(sent.end(), std::begin(kTls), std::end(kTls));
  size_t first = std::min<size_t>(data[1], sent.size());
  int before = fuzz::lowest_descriptor();
  fuzz::Connection c = fuzz::connect(SOCK_STREAM | SOCK_NONBLOCK);
  static int listener = fuzz::connect().here;  // nothing connects: the target adds connections
  static Reception* reception = new Reception(listener, 0, nullptr);
  PendingConnection received{-1, "", "", 0, {}};
  reception->receiver_ = [&](const PendingConnection& p) {
    received = p;
  };
  epoll_event event{EPOLLIN, {.fd = c.here}};
  epoll_ctl(reception->epoll_, EPOLL_CTL_ADD, c.here, &event);
  reception->pending_.add({c.here, "network", "client", INT64_MAX, {}});
  fuzz::send_with(c.there, sent.data(), first, 0);
  if (first) reception->read(c.here, false);
  fuzz::send_with(c.there, sent.data() + first, sent.size() - first, 0);
  close(c.there);
  if (reception->pending_.find(c.here)) reception->read(c.here, true);
  if (reception->pending_.size()) abort();  // the connection has ended
  if (received.fd >= 0) {
    check(received.bytes, authentic);
    check_rest(received.fd, sent, received.bytes.size());
    close(received.fd);
  }
  if (fuzz::lowest_descriptor() != before) abort();
  return 0;
}
