// libFuzzer target: bulk connections of a hostile client and of a hostile session server.
//
// The first byte of the input chooses the receiver. The rest is what arrives: headers, each
// followed by the bytes of its chunk.
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#define private public  // what has arrived is private
#include "client/link.h"
#include "server/bulk_transfers.h"
#undef private

#include "fuzz/connection.h"
#include "wire/format.h"

using namespace busbar;
using Bytes = std::vector<uint8_t>;

namespace {
transport::Tls connection_with(const uint8_t* p, size_t n) {
  fuzz::Connection c = fuzz::connect();
  int room = 1 << 20;
  setsockopt(c.there, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  fuzz::send_with(c.there, p, n, 0);
  close(c.there);
  return transport::Tls::prepare_with_key(c.here, transport::Role::server, {});
}

// Calls `take` for each chunk that the bytes have completely, until it returns false.
template <typename Take>
void for_each_chunk(const uint8_t* p, size_t n, Take take) {
  wire::BulkHeader h;
  while (n >= sizeof h) {
    std::memcpy(&h, p, sizeof h);
    p += sizeof h;
    n -= sizeof h;
    if (h.bytes > n || !take(h, p)) return;
    p += h.bytes;
    n -= h.bytes;
  }
}

// A session server keeps the chunks of each transfer that follow each other without a gap.
void receive_on_server(const uint8_t* p, size_t n) {
  static auto& driver = *new server::Driver{};
  server::PinnedPool pool(driver);
  server::BulkTransfers bulk(pool, [] {});
  bulk.receive(1, connection_with(p, n));
  std::map<uint64_t, Bytes> expected;
  for_each_chunk(p, n, [&](const wire::BulkHeader& h, const uint8_t* bytes) {
    Bytes& transfer = expected[h.transfer];
    if (!h.bytes || h.offset != transfer.size()) return false;
    transfer.insert(transfer.end(), bytes, bytes + h.bytes);
    return true;
  });
  for (auto& [id, bytes] : expected) {
    if (bulk.has(id, bytes.size() + 1)) abort();
    Bytes found;
    for (auto& chunk : bulk.collect(id))
      found.insert(found.end(), chunk.data(), chunk.data() + chunk.size());
    if (found != bytes) abort();
  }
  if (bulk.held_bytes_) abort();
}

// The program's memory of a client. The transfer fills the bytes from kOffset on.
constexpr uint64_t kTransfer = 2, kOffset = 64, kTransferBytes = 1024, kMemoryBytes = 2048;

// A client writes to the memory of the transfer that a header names, and nowhere else.
void receive_on_client(const uint8_t* p, size_t n) {
  static uint8_t memory[kMemoryBytes];
  static const client::AddressMap addresses;  // empty: no pinned memory
  std::memset(memory, 0, sizeof memory);
  client::Link link(addresses);
  link.closing_ = true;  // suppresses messages
  link.incoming_[kTransfer] = {client::Rows::flat(memory, sizeof memory), kOffset, kTransferBytes,
                               kTransferBytes};
  link.bulk_ = connection_with(p, n);
  while (link.receive_bulk_chunk()) {
  }
  Bytes expected(sizeof memory);
  uint64_t left = kTransferBytes;
  for_each_chunk(p, n, [&](const wire::BulkHeader& h, const uint8_t* bytes) {
    if (!h.bytes) return true;
    if (h.transfer != kTransfer || !left || h.offset > kTransferBytes ||
        h.bytes > kTransferBytes - h.offset)
      return false;
    std::memcpy(expected.data() + kOffset + h.offset, bytes, h.bytes);
    left -= std::min(left, h.bytes);
    return true;
  });
  if (std::memcmp(memory, expected.data(), sizeof memory)) abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  if (n < 1) return 0;
  int before = fuzz::lowest_descriptor();
  if (data[0] & 1)
    receive_on_client(data + 1, n - 1);
  else
    receive_on_server(data + 1, n - 1);
  if (fuzz::lowest_descriptor() != before) abort();
  return 0;
}
