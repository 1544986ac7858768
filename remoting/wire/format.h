// Layouts and limits of the wire protocol. PROTOCOL.md describes the exchanges.
//
// All integers are little endian. Structures have no padding beyond their declared members.
#pragma once
#include <cstdint>

#include "wire/opcodes.h"

namespace busbar::wire {

constexpr uint32_t kProtocolVersion = 14;

// ---- limits ----
// Bytes of one record with its header. A launch carries at most 32,764 bytes of parameters.
constexpr uint32_t kMaxRecordBytes = 64 << 10;
// Bytes of the payload of one `part` record, and of the payload of a record that came in parts.
constexpr uint32_t kPartBytes = kMaxRecordBytes - 16;
constexpr uint32_t kMaxPayloadBytes = 32u << 20;
// Bytes of host data inside a record. Larger data travels over the bulk connection.
constexpr uint32_t kMaxInlineBytes = 4 << 10;
constexpr uint32_t kMaxFrameBytes = 64 << 20;
constexpr uint32_t kMaxTicketBytes = 4 << 10;
constexpr uint32_t kMaxChunkBytes = 4 << 20;  // one chunk of a transfer
// A large copy is split into pieces of this size: both ends work concurrently, and each piece stays
// in their caches.
constexpr uint32_t kCopyPieceBytes = 1 << 20;
constexpr uint64_t kMaxImageBytes = 1ull << 30;
constexpr uint64_t kBulkCreditBytes = 64ull << 20;  // sent and not yet consumed
constexpr uint32_t kMaxCallNameBytes = 64;
constexpr uint32_t kMaxObjects = 1u << 22;    // handles of one kind in a session
constexpr uint32_t kMaxNameBytes = 1u << 20;  // of a kernel or variable; the driver sets no limit
// The reply to load_module describes the functions of a module that has at most this many.
constexpr uint32_t kFunctionsInLoadReply = 2;
constexpr uint32_t kMaxListElements = 1u << 20;   // elements of one request or reply
constexpr uint64_t kMaxStagedBytes = 1ull << 30;  // graph staging buffers of a session
// Bytes of records that a session server holds. The client pauses a stream whose queue holds more
// than the first number, and all streams when the stream queues and helper threads together hold
// more than the second; it goes on at half of each. Above the last number the session ends. What is
// under way when the client pauses, at most 11 MiB, can take five times its size.
constexpr uint64_t kPauseStreamBytes = 24ull << 20;
constexpr uint64_t kPauseAllBytes = 72ull << 20;
constexpr uint64_t kMaxHeldBytes = 128ull << 20;
constexpr uint32_t kMaxDevices = 16;
constexpr uint32_t kMaxDescriptionBytes = 32 << 10;  // of the devices of a session
// Attributes in the description of a device and of a function: more than cuda.h declares today.
constexpr int kDeviceAttributes = 256, kFunctionAttributes = 32;

// ---- arenas ----
constexpr uint64_t kArenaMemoryMultiple = 4;  // size of an arena as a multiple of the memory
constexpr uint64_t kArenaSlotBytes = 1ull
                                     << 40;  // reserved by the client at each address it offers
constexpr uint32_t kArenaSlots = 14;         // addresses that the client offers
constexpr uint32_t kArenaAttempts = 4;       // addresses that the server tries for one device
// Addresses that the client chooses: ranges that the program reserves, and above them its pinned
// memory. The server reserves all of them for the session.
#ifdef BUSBAR_SMALL_WINDOW  // ThreadSanitizer uses the others
constexpr uint64_t kFirstRangeAddress = 0x5000000000ull, kFirstPinnedAddress = 0x6000000000ull,
                   kLastPinnedAddress = 0x7000000000ull;
#else
constexpr uint64_t kFirstRangeAddress = 0x2b0000000000ull, kFirstPinnedAddress = 0x2d0000000000ull,
                   kLastPinnedAddress = 0x2f0000000000ull;
#endif
constexpr uint64_t kLeaseBytes = 64ull << 20;  // more than is needed is leased up to this
constexpr uint64_t kGranularity = 2ull << 20;  // of physical device memory

// ---- before TLS ----
// The client's first bytes. The port sends nothing until they are valid.
enum class Purpose : uint32_t { open = 1, bulk = 2 };
struct Preamble {
  char magic[8];     // kMagic
  uint32_t purpose;  // Purpose
  uint32_t bytes;    // length of the ticket or BulkRequest that follows
};
constexpr char kMagic[8] = {'B', 'U', 'S', 'B', 'A', 'R', '1', '\n'};
static_assert(sizeof(Preamble) == 16);

// Follows the preamble of a bulk connection.
struct BulkRequest {
  uint8_t session[16];
  uint64_t counter;   // of the bulk connections of the session; the launcher accepts it once
  uint8_t proof[32];  // HMAC-SHA-256 of the above; see transport/session_keys.h
};
static_assert(sizeof(BulkRequest) == 56);

// ---- client and launcher, inside TLS, before the session server takes over ----
struct OpenRequest {
  uint32_t protocol, pid;
  char program[56];
  // Name of the abstract Unix socket on which the client expects a session server of its own
  // machine. Zero: shared memory is not offered.
  uint8_t rendezvous[16];
  // Addresses of kArenaSlotBytes each that the client has reserved; zeros at the end.
  uint64_t free_addresses[kArenaSlots];
};
// The description of the devices follows unless `status` is set.
struct OpenReply {
  uint32_t status;  // CUresult
  uint32_t shared;  // 1: the session server has connected to the rendezvous socket
  uint32_t description_bytes, reserved;
  uint8_t session[16];
  char message[224];  // reason when `status` is set
};
static_assert(sizeof(OpenRequest) == 192 && sizeof(OpenReply) == 256);
constexpr char kExporterLabel[] = "EXPORTER-busbar-session-v1";

// Flag in a transfer number: the remaining bits are the number of the shared chunk with the bytes.
constexpr uint64_t kSharedChunkFlag = 1ull << 63;

// ---- client to session server: records ----
struct RecordHeader {
  uint32_t bytes;  // including this header; a multiple of 16
  uint16_t opcode;
  uint16_t flags;
  uint32_t context;  // 0: none
  uint32_t stream;   // id, or one of the constants below
};
static_assert(sizeof(RecordHeader) == 16);
// Flag of a record: the bytes of the `part` records since the last such record come before its
// payload.
constexpr uint16_t kInParts = 1;
constexpr uint32_t kNoStream = 0, kLegacyStream = 1, kFirstStream = 16, kAllStreams = UINT32_MAX;

// Content of a CUipcMemHandle or CUipcEventHandle. The secret proves that the holder received the
// handle.
struct IpcToken {
  char magic[8];        // kIpcMagic
  uint8_t session[16];  // session that owns the memory
  uint8_t secret[16];
  // Address and size of the leases that the memory lies in; offset of the pointer.
  uint64_t lease, bytes, offset;
};
static_assert(sizeof(IpcToken) == 64);
constexpr char kIpcMagic[8] = {'B', 'U', 'S', 'B', 'I', 'P', 'C', '1'};
// Of a CUipcEventHandle, which has no lease.
constexpr char kIpcEventMagic[8] = {'B', 'U', 'S', 'B', 'I', 'P', 'E', '1'};

// ---- session server to client: frames ----
enum class Frame : uint16_t {
  completion = 1,      // u32 stream, u32 error, u64 position, u64 bulk bytes sent before it
  reply = 2,           // u64 id, u32 status, body
  data = 3,            // u64 transfer, u64 offset, bytes
  host_function = 4,   // u64 id
  credit = 5,          // u64 bulk bytes consumed since the start of the session
  session_error = 6,   // u32 error, text
  graph_function = 7,  // u64 id, u64 round: a graph waits for this host function of the client
  // u32 staging buffer, u32 0, u64 offset, bytes: result of a graph's copy, sent before a
  // graph_function frame.
  graph_output = 8,
  // u64 transfer, u64 offset, u64 bytes, u32 chunk: the bytes lie in this chunk of shared memory,
  // which the client releases.
  shared_data = 9,
  kernel_output = 10,  // text printed by kernels, for the program's standard output
  // u32 1: send no record of the stream that needs no reply; u32 0: go on. Then u32 the stream, or
  // kAllStreams.
  pause = 11,
  // u32 device, u32 1: more is charged than the partition has, u64 its bytes. Sent when they
  // change.
  partition_size = 12,
  // Another session needs memory, or a partition has shrunk: return unused leases, then send
  // return_complete.
  memory_wanted = 13,
};
struct FrameHeader {
  uint32_t bytes;  // of the body, without this header
  uint16_t kind;   // Frame
  uint16_t flags;
};
static_assert(sizeof(FrameHeader) == 8);

// ---- bulk connection, both directions ----
struct BulkHeader {
  uint64_t transfer;
  uint64_t offset;  // of this chunk in the transfer
  uint64_t bytes;   // of this chunk, at most kMaxChunkBytes
};
static_assert(sizeof(BulkHeader) == 24);

// Status of the reply to a load_module record that named an image by its hash only, when the node
// does not have the image.
constexpr uint32_t kImageRequired = 0xffff0001;

}  // namespace busbar::wire
