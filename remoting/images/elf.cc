#include "images/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <vector>

#include "checked_size.h"

namespace busbar::images {

namespace {
constexpr uint16_t kGpuMachine = 190;           // EM_CUDA
constexpr uint64_t kSectionAlignment = 1 << 8;  // bytes; a file may ask for more
// Shared memory of a thread block is smaller on every GPU, with room to grow.
constexpr uint64_t kMaxSharedBytes = 1 << 20;

using Sections = std::vector<Elf64_Shdr>;
using Segments = std::vector<Elf64_Phdr>;

bool inside(std::string_view file, CheckedSize at, CheckedSize bytes) {
  return (at + bytes).within(file.size());
}

// Read `count` elements of a table. False if it lies outside of the file.
template <typename T>
bool read_table(std::string_view file, uint64_t at, uint64_t count, std::vector<T>& out) {
  if (!inside(file, at, CheckedSize(count) * sizeof(T))) return false;
  out.resize(count);
  if (count) std::memcpy(out.data(), file.data() + at, out.size() * sizeof(T));
  return true;
}

bool read_header(std::string_view file, Machine machine, Elf64_Ehdr& h) {
  if (!is_elf(file) || file.size() < sizeof h) return false;
  std::memcpy(&h, file.data(), sizeof h);
  return h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_ident[EI_DATA] == ELFDATA2LSB &&
         h.e_ehsize == sizeof h && (!h.e_phnum || h.e_phentsize == sizeof(Elf64_Phdr)) &&
         (!h.e_shoff || h.e_shentsize == sizeof(Elf64_Shdr)) &&
         (machine == Machine::any || h.e_machine == kGpuMachine);
}

// Read the sections. The first one holds numbers that do not fit in the header.
bool read_sections(std::string_view file, const Elf64_Ehdr& h, Sections& out, uint32_t& names) {
  names = h.e_shstrndx;
  if (!h.e_shoff) return h.e_shnum == 0;
  if (!read_table(file, h.e_shoff, 1, out)) return false;
  uint64_t count = h.e_shnum ? h.e_shnum : out[0].sh_size;
  if (names == SHN_XINDEX) names = out[0].sh_link;
  return read_table(file, h.e_shoff, count, out);
}

bool is_text_table(std::string_view file, const Elf64_Shdr& s) {
  CheckedSize last = CheckedSize(s.sh_offset) + s.sh_size - 1;
  return s.sh_type == SHT_STRTAB && s.sh_size && file[last.value()] == '\0';
}

// Read the elements of a section. False if its sizes do not match.
template <typename T>
bool elements_of(std::string_view file, const Elf64_Shdr& s, std::vector<T>& out) {
  return s.sh_entsize == sizeof(T) && s.sh_size % sizeof(T) == 0 &&
         read_table(file, s.sh_offset, s.sh_size / sizeof(T), out);
}

bool valid_symbols(std::string_view file, const Sections& all, const Elf64_Shdr& s) {
  std::vector<Elf64_Sym> symbols;
  if (s.sh_link >= all.size() || !is_text_table(file, all[s.sh_link]) ||
      !elements_of(file, s, symbols))
    return false;
  return std::all_of(symbols.begin(), symbols.end(), [&](auto& symbol) {
    return symbol.st_name < all[s.sh_link].sh_size &&
           (symbol.st_shndx < all.size() || symbol.st_shndx >= SHN_LORESERVE);
  });
}

uint64_t symbols_in(const Elf64_Shdr& s) {
  return s.sh_type == SHT_SYMTAB ? s.sh_size / sizeof(Elf64_Sym) : 0;
}

// Symbols to which relocations of a section can refer. In code of cuBLAS the relocations of
// .debug_frame name a section that is no symbol table; a section that is not loaded may do so, and
// then its symbols must be in each table.
uint64_t symbols_of(const Sections& all, const Elf64_Shdr& relocations) {
  const Elf64_Shdr& table = all[relocations.sh_link];
  if (table.sh_type == SHT_SYMTAB || (all[relocations.sh_info].sh_flags & SHF_ALLOC))
    return symbols_in(table);
  uint64_t fewest = UINT64_MAX;
  for (auto& s : all)
    if (s.sh_type == SHT_SYMTAB) fewest = std::min(fewest, symbols_in(s));
  return fewest == UINT64_MAX ? 0 : fewest;
}

template <typename T>
bool valid_relocations(std::string_view file, const Sections& all, const Elf64_Shdr& s) {
  std::vector<T> list;
  if (s.sh_link >= all.size() || s.sh_info >= all.size() || !elements_of(file, s, list))
    return false;
  uint64_t count = symbols_of(all, s);
  return std::all_of(list.begin(), list.end(), [&](auto& r) {
    return !ELF64_R_SYM(r.r_info) || ELF64_R_SYM(r.r_info) < count;
  });
}

bool valid_section(std::string_view file, const Sections& all, const Elf64_Shdr& s) {
  switch (s.sh_type) {
    case SHT_STRTAB: return !s.sh_size || is_text_table(file, s);
    case SHT_SYMTAB: return valid_symbols(file, all, s);
    case SHT_REL: return valid_relocations<Elf64_Rel>(file, all, s);
    case SHT_RELA: return valid_relocations<Elf64_Rela>(file, all, s);
    default: return true;
  }
}

bool has_bytes(const Elf64_Shdr& s) {
  return s.sh_type != SHT_NULL && s.sh_type != SHT_NOBITS;
}

bool occupies_memory(const Elf64_Shdr& s) {
  return s.sh_type == SHT_NOBITS || (has_bytes(s) && (s.sh_flags & SHF_ALLOC));
}

std::string_view name_of(std::string_view file, const Elf64_Shdr& names, const Elf64_Shdr& s) {
  return file.data() + names.sh_offset + s.sh_name;  // the table ends with a zero
}

// Shared memory is on the chip. Compilers write one such section for the code of a function, to
// which it refers. Others count, whatever their names say.
bool is_shared(std::string_view file, const Sections& all, uint32_t names, const Elf64_Shdr& s) {
  constexpr std::string_view kShared = ".nv.shared.", kCode = ".text.";
  if (s.sh_type != SHT_NOBITS || s.sh_info >= all.size() || s.sh_size > kMaxSharedBytes)
    return false;
  std::string_view name = name_of(file, all[names], s);
  std::string_view code = name_of(file, all[names], all[s.sh_info]);
  return name.starts_with(kShared) && code.starts_with(kCode) &&
         name.substr(kShared.size()) == code.substr(kCode.size());
}

// Return the memory of a part that begins at a multiple of `align` at any place between others.
// Without a power of two it does not fit.
CheckedSize padded(uint64_t bytes, uint64_t align) {
  if (align & (align - 1)) return UINT64_MAX;
  uint64_t padding = std::max(align, kSectionAlignment) - kSectionAlignment;
  return CheckedSize(bytes).rounded_up(kSectionAlignment) + padding;
}

// The bytes of all sections are checked before the contents of any: they refer to each other.
bool valid_sections(std::string_view file, const Sections& all, uint32_t names) {
  if (all.empty()) return true;
  for (auto& s : all)
    if (has_bytes(s) && !inside(file, s.sh_offset, s.sh_size)) return false;
  if (names >= all.size() || !is_text_table(file, all[names])) return false;
  return std::all_of(all.begin(), all.end(), [&](auto& s) {
    return s.sh_name < all[names].sh_size && valid_section(file, all, s);
  });
}
}  // namespace

bool is_elf(std::string_view file) {
  return file.substr(0, SELFMAG) == std::string_view(ELFMAG, SELFMAG);
}

bool valid_elf(std::string_view file, Machine machine) {
  Elf64_Ehdr h;
  Sections sections;
  Segments segments;
  uint32_t names = 0;
  return read_header(file, machine, h) && read_sections(file, h, sections, names) &&
         valid_sections(file, sections, names) &&
         read_table(file, h.e_phoff, h.e_phnum, segments) &&
         std::all_of(segments.begin(), segments.end(),
                     [&](auto& s) { return inside(file, s.p_offset, s.p_filesz); });
}

uint64_t elf_memory_bytes(std::string_view file) {
  Elf64_Ehdr h;
  Sections sections;
  Segments segments;
  uint32_t names = 0;
  if (!read_header(file, Machine::any, h) || !read_sections(file, h, sections, names) ||
      !read_table(file, h.e_phoff, h.e_phnum, segments))
    return UINT64_MAX;
  CheckedSize of_sections = 0, of_segments = 0;
  std::set<uint32_t> with_shared;  // sections with code
  for (auto& s : sections) {
    if (!occupies_memory(s)) continue;
    if (is_shared(file, sections, names, s) && with_shared.insert(s.sh_info).second) continue;
    of_sections = of_sections + padded(s.sh_size, s.sh_addralign);
  }
  for (auto& s : segments) of_segments = of_segments + padded(s.p_memsz, s.p_align);
  return std::max(of_sections.value(), of_segments.value());
}

uint64_t elf_extent(const void* file) {
  Elf64_Ehdr h;
  std::memcpy(&h, file, sizeof h);
  auto end_of = [](uint64_t at, uint64_t count, uint64_t bytes) {
    return (CheckedSize(count) * bytes + at).value();
  };
  uint64_t count = h.e_shnum;
  if (!count && h.e_shoff)  // the first section holds a number that does not fit in the header
    std::memcpy(&count, (const char*)file + h.e_shoff + offsetof(Elf64_Shdr, sh_size),
                sizeof count);
  uint64_t end = std::max({(uint64_t)sizeof h, end_of(h.e_phoff, h.e_phnum, h.e_phentsize),
                           end_of(h.e_shoff, count, h.e_shentsize)});
  for (uint64_t i = 0; i < count; ++i) {
    Elf64_Shdr s;
    std::memcpy(&s, (const char*)file + end_of(h.e_shoff, i, h.e_shentsize), sizeof s);
    if (has_bytes(s)) end = std::max(end, end_of(s.sh_offset, 1, s.sh_size));
  }
  return end;
}

}  // namespace busbar::images
