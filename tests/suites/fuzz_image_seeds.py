"""Seeds of the fuzz target `images`: code images, intact and with one malformed field each.

The first byte of a seed chooses a module or the input type of a link: remoting/fuzz/images.cc.
"""

from __future__ import annotations

import struct

CUBIN, PTX, FATBINARY, OBJECT, LIBRARY, NVVM, MODULE = range(7)
"""CUjitInputType, and a module."""
PTX_ENTRY, ELF_ENTRY, IR_ENTRY = 1, 2, 8
LZ4_FLAG, ZSTD_FLAG = 0x2000, 0x8000
ENTRY_BYTES, SECTION_BYTES, SYMBOL_BYTES = 64, 64, 24
GPU_MACHINE, X86_MACHINE = 190, 62
PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL = 1, 2, 3, 4, 8, 9
ALLOC = 2  # SHF_ALLOC: the section is loaded
TEXT = b".version 8.0\n.target sm_80\n.address_size 64\n"
MAX = (1 << 64) - 1


def lz4(data: bytes) -> bytes:
    """Return data of 15 to 269 bytes as one sequence of literals."""
    return bytes([0xF0, len(data) - 15]) + data


def zstd(data: bytes) -> bytes:
    """Return data of less than 256 bytes as a frame with one raw block."""
    block = struct.pack("<I", len(data) << 3 | 1)[:3]
    return struct.pack("<I", 0xFD2FB528) + bytes([0x20, len(data)]) + block + data


def section(kind: int, at: int, size: int, **fields: int) -> bytes:
    link, info = fields.get("link", 0), fields.get("info", 0)
    entry, flags = fields.get("entry", 0), fields.get("flags", 0)
    return struct.pack(
        "<IIQQQQIIQQ", fields.get("name", 0), kind, flags, 0, at, size, link, info, 0, entry
    )


VARIABLES = (
    ".visible .global .align 8 .b8 a[4097], b;",
    ".const[3] .v4 .f32 a[0x20][01000U];",
    ".const[3 .b8 a;",
    ".global .attribute(.unified(1, 2)) .u64 a[] = {x+4, generic(y), {1, 2}}, b = 3;",
    ".global .attribute(.managed;",
    ".extern .global .b128 a<0b101>, b[0] = {1};",
    ".global .texref t; .global .pred p; .global .bf16x2 h; .global .f7 a; .global .q8 b;",
    ".global .b999999999999999999999 a;",
    ".global .align 3 .b8 a;",
    ".global .align x .b8 a;",
    ".global .b8 a[x];",
    ".global .b8 a[4;",
    ".global .b8 a[1f];",
    ".global .b64 a[0xffffffffffffffff];",
    ".global .b8 = 3;",
    ".global .b8 a = 3 .global",
    ".global .b8 a = };",
    ".entry k(.param .u64 .ptr .global p) { ld.global.u32 %r1, [x]; { .global ; } }",
    "#define x\n",
    "// x\r\n// y\f/* z */ /* open",
    '.file 1 "a" "b\\" "open',
    '"',
)
NAMES = b"\0.text\0"
BODY_AT = 64
"""Offset behind the header."""
ELF_FIELDS = {
    "machine": GPU_MACHINE,
    "class": 2,
    "data": 1,
    "header": 64,
    "segment_bytes": 56,
    "section_bytes": SECTION_BYTES,
    "names": 1,
    "name": 1,
    "symbol_section": 3,
    "relocation_symbol": 1,
    "symbol_name": 1,
    "symbol_size": SYMBOL_BYTES,
    "text_link": 1,
    "target": 3,
    "file_bytes": 8,
    "section_end": 0,
}


def elf(**changes: int) -> bytes:
    """Return an ELF file with every kind of section that is checked. `changes` replace fields."""
    value = ELF_FIELDS | changes
    symbols = symbol_table(value["symbol_name"], value["symbol_section"])
    reference = value["relocation_symbol"] << 32
    relocations = struct.pack("<QQQ", 0, reference, 0) + struct.pack("<QQ", 0, reference)
    body = NAMES.ljust(8, b"\0") + symbols + relocations
    sections = section_headers(value, len(symbols))
    segments_at = BODY_AT + len(body)
    segment = struct.pack(
        "<IIQQQQQQ", 1, 5, value.get("segment_at", BODY_AT), 0, 0, value["file_bytes"], 8, 8
    )
    sections_at = value.get("sections_at", segments_at + len(segment))
    ident = b"\x7fELF" + bytes([value["class"], value["data"], 1, 0x41, 8]) + bytes(7)
    head = ident + struct.pack(
        "<HHIQQQIHHHHHH",
        *(2, value["machine"], 1, 0, segments_at, sections_at, 0, value["header"]),
        *(value["segment_bytes"], value.get("segments", 1), value["section_bytes"]),
        *(value.get("sections", len(sections)), value["names"]),
    )
    return head + body + segment + b"".join(sections)


def symbol_table(name: int, section: int) -> bytes:
    """Return the first symbol, which is empty, the one with these values, and an absolute one."""
    symbol = struct.pack("<IBBHQQ", name, 0, 0, section, 0, 0)
    return bytes(SYMBOL_BYTES) + symbol + struct.pack("<IBBHQQ", 0, 0, 0, 0xFFF1, 0, 0)


def section_headers(value: dict[str, int], symbols_bytes: int) -> list[bytes]:
    """Return the headers of the names, the symbols and the relocations, which are in this order."""
    at = BODY_AT
    symbols_at = at + 8
    rela_at = symbols_at + symbols_bytes
    names_bytes = value.get("names_bytes", 8)
    return [
        section(
            0, value.get("first_at", 0), value.get("first_size", 0), link=value.get("first_link", 0)
        ),
        section(value.get("names_kind", STRTAB), at, names_bytes, name=value["name"]),
        section(
            SYMTAB, symbols_at, symbols_bytes, link=value["text_link"], entry=value["symbol_size"]
        ),
        section(
            PROGBITS,
            value.get("text_at", at),
            8 + value["section_end"],
            name=1,
            flags=value.get("text_flags", ALLOC),
        ),
        section(RELA, rela_at, 24, link=value.get("symbols", 2), info=value["target"], entry=24),
        section(REL, rela_at + 24, 16, link=value.get("symbols", 2), info=3, entry=16),
        section(NOBITS, MAX, MAX),
        section(STRTAB, at, 0),
    ]


MALFORMED_ELF: dict[str, dict[str, int]] = {
    "32 bits": {"class": 1},
    "big endian": {"data": 2},
    "host": {"machine": X86_MACHINE},
    "header of 52 bytes": {"header": 52},
    "segments of 32 bytes": {"segment_bytes": 32},
    "sections of 40 bytes": {"section_bytes": 40},
    "sections behind the file": {"sections_at": 1 << 20},
    "sections that wrap": {"sections_at": MAX - 8},
    "sections without a table": {"sections_at": 0},
    "too many sections": {"sections": 200},
    "section behind the file": {"section_end": 1 << 20},
    "section that wraps": {"text_at": MAX - 4},
    "no names": {"names": 99},
    "names without a zero": {"names_bytes": 6},
    "empty names": {"names_bytes": 0},
    "names of another kind": {"names_kind": PROGBITS},
    "name behind the names": {"name": 100},
    "symbols without names": {"text_link": 99},
    "symbols with names of another kind": {"text_link": 3},
    "symbols of 16 bytes": {"symbol_size": 16},
    "name of a symbol behind the names": {"symbol_name": 100},
    "section of a symbol": {"symbol_section": 100},
    "symbol of a relocation": {"relocation_symbol": 100},
    "relocation of no section": {"target": 100},
    "relocation without symbols": {"symbols": 100},
    "relocation with symbols of another kind": {"symbols": 1},
    "debug relocation of no symbol": {"symbols": 1, "text_flags": 0, "relocation_symbol": 3},
    "segment behind the file": {"segment_at": 1 << 20},
    "segment that wraps": {"segment_at": MAX},
    "too many segments": {"segments": 60000},
    "number of sections elsewhere, too many": {"sections": 0, "first_size": 1 << 62},
}
INTACT_ELF: dict[str, dict[str, int]] = {
    "all kinds": {},
    "no segments": {"segments": 0, "segment_bytes": 0},
    "number of sections elsewhere": {"sections": 0, "first_size": 8},
    "number of names elsewhere": {"names": 0xFFFF, "first_link": 1},
    "no sections": {"sections_at": 0, "sections": 0},
    "no relocated symbol": {"relocation_symbol": 0, "symbols": 0},
    "debug relocation with symbols of another kind": {"symbols": 1, "text_flags": 0},
}


def entry(kind: int, payload: bytes, **changes: int) -> bytes:
    """Return an entry of a fat binary with options. `changes` replace fields of its header."""
    value = {"bytes": len(payload), "options": ENTRY_BYTES, "name": 0, "flags": 0x11} | changes
    value |= {"header": changes.get("header", ENTRY_BYTES + 16)}
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        *(kind, 0x101, value["header"], value["bytes"], value.get("compressed", 0)),
        *(value["options"], 0, 8, value.get("arch", 75), 0, value["name"], value["flags"], 0),
        value.get("plain", 0),
    )
    text = struct.pack("<II", value.get("text_at", 72), value.get("text_bytes", 8))
    return header + text + b"-options" + payload


def fatbin(*entries: bytes, extra: int = 0, header: int = 16) -> bytes:
    content = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, header, (len(content) + extra) & MAX) + content


def compressed(data: bytes, flag: int, **changes: int) -> bytes:
    payload = lz4(data) if flag == LZ4_FLAG else zstd(data)
    fields = {"compressed": len(payload), "plain": len(data), "flags": flag | 0x11} | changes
    return entry(PTX_ENTRY, payload.ljust((len(payload) + 7) & ~7, b"\0"), **fields)


def intact_fatbins() -> dict[str, bytes]:
    return {
        "text": fatbin(entry(PTX_ENTRY, TEXT)),
        "text and code": fatbin(entry(PTX_ENTRY, TEXT), entry(ELF_ENTRY, elf())),
        "LZ4": fatbin(compressed(TEXT, LZ4_FLAG)),
        "zstd": fatbin(compressed(TEXT, ZSTD_FLAG)),
        "other kinds": fatbin(entry(IR_ENTRY, b"12345678"), entry(0x40, b"12345678")),
        "no options": fatbin(entry(PTX_ENTRY, TEXT, options=0)),
    }


def malformed_fatbins() -> dict[str, bytes]:
    wrapper = struct.pack("<IIQQ", 0x466243B1, 1, 0x1000, 0)
    return {
        "wrapper": wrapper,
        "no entry": fatbin(),
        "unknown kind": fatbin(entry(0x40, b"12345678")),
        "half a header": fatbin()[:12],
        "header of 8 bytes": fatbin(entry(PTX_ENTRY, TEXT), header=8),
        "entries behind the file": fatbin(entry(PTX_ENTRY, TEXT), extra=64),
        "entries that wrap": fatbin(entry(PTX_ENTRY, TEXT), extra=-200),
        "half an entry": fatbin(entry(PTX_ENTRY, TEXT)[:40]),
        "payload behind the file": fatbin(entry(PTX_ENTRY, TEXT, bytes=1 << 20)),
        "payload that wraps": fatbin(entry(PTX_ENTRY, TEXT, bytes=MAX - 79)),
        "short entry header": fatbin(entry(PTX_ENTRY, TEXT, header=32)),
        "options behind the header": fatbin(entry(PTX_ENTRY, TEXT, options=200)),
        "options at the end": fatbin(entry(PTX_ENTRY, TEXT, options=76)),
        "text of options": fatbin(entry(PTX_ENTRY, TEXT, text_bytes=1 << 20)),
        "name behind the header": fatbin(entry(PTX_ENTRY, TEXT, name=1 << 20)),
        "text with magic": fatbin(entry(PTX_ENTRY, wrapper)),
        "malformed code": fatbin(entry(ELF_ENTRY, elf(names=99))),
        "malformed LZ4": fatbin(compressed(TEXT, LZ4_FLAG, plain=8)),
        "malformed zstd": fatbin(compressed(TEXT, ZSTD_FLAG, plain=8)),
        "compressed bytes behind the entry": fatbin(compressed(TEXT, LZ4_FLAG, compressed=4096)),
        "much plain text": fatbin(compressed(TEXT, ZSTD_FLAG, plain=1 << 29)),
        "too much plain text": fatbin(compressed(TEXT, ZSTD_FLAG, plain=MAX)),
        "many entries": fatbin(*[entry(0x40, b"", header=64, options=0)[:64]] * 5000),
    }


def member(content: bytes, size: bytes = b"", end: bytes = b"`\n") -> bytes:
    size = size or str(len(content)).encode()
    padding = b"\n" * (len(content) % 2)
    return b"a.o/".ljust(48) + size.ljust(10) + end + content + padding


def archives() -> dict[str, bytes]:
    head = b"!<arch>\n"
    return {
        "objects": head + member(b"123") + member(elf(machine=X86_MACHINE)),
        "last member of odd size": head + member(b"123")[:-1],
        "no archive": TEXT,
        "half a member": head + member(b"")[:30],
        "end of a member": head + member(b"1", end=b"ab"),
        "size of a member": head + member(b"1", size=b"1x"),
        "size without digits": head + member(b"1", size=b"x"),
        "member behind the file": head + member(b"12", size=b"99999"),
        "malformed object": head + member(elf(names=99)),
    }


def image_seeds() -> dict[str, bytes]:
    elf_files = {f"ELF {n}": elf(**c) for n, c in (MALFORMED_ELF | INTACT_ELF).items()}
    fatbins = intact_fatbins() | malformed_fatbins()
    texts = {"text": TEXT + b"\0more", "short": b"a", "empty": b"", "half an ELF": b"\x7fELF\2\1"}
    texts |= {f"variables {v}"[:80].replace("/", "|"): v.encode() for v in VARIABLES}
    modules = elf_files | fatbins | texts
    seeds = {f"module {n}": bytes([MODULE]) + image for n, image in modules.items()}
    seeds |= {f"archive {n}": bytes([LIBRARY]) + image for n, image in archives().items()}
    for kind in (CUBIN, PTX, FATBINARY, OBJECT, NVVM):
        for name, image in {"ELF": elf(), "fatbin": fatbins["text"], "text": TEXT}.items():
            seeds[f"link {kind} {name}"] = bytes([kind]) + image
    return seeds
