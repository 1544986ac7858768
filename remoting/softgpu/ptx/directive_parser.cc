#include "softgpu/ptx/directive_parser.h"

namespace softgpu::ptx {
namespace {

void skip_text(TokenCursor& cursor) {
  if (!cursor.is_kind(TokenKind::text))
    cursor.refuse("expected a text before '" + cursor.current().text + "'");
  cursor.take();
}

void skip_number(TokenCursor& cursor) {
  if (!cursor.is_kind(TokenKind::integer))
    cursor.refuse("expected a number before '" + cursor.current().text + "'");
  cursor.take();
}

// `1 "name"` with an optional time and size
void skip_file(TokenCursor& cursor) {
  skip_number(cursor);
  skip_text(cursor);
  if (!cursor.accept(",")) return;
  skip_number(cursor);
  cursor.expect(",");
  skip_number(cursor);
}

void skip_place(TokenCursor& cursor) {
  for (int i = 0; i < 3; ++i) skip_number(cursor);
}

// `1 2 3`, or `1 2 3, function_name label+4, inlined_at 1 2 3`
void skip_location(TokenCursor& cursor) {
  skip_place(cursor);
  if (!cursor.accept(",")) return;
  if (cursor.word() != "function_name") cursor.refuse("expected function_name in .loc");
  cursor.word();
  if (cursor.accept("+")) skip_number(cursor);
  cursor.expect(",");
  if (cursor.word() != "inlined_at") cursor.refuse("expected inlined_at in .loc");
  skip_place(cursor);
}

void skip_pragma(TokenCursor& cursor) {
  do skip_text(cursor);
  while (cursor.accept(","));
  cursor.expect(";");
}

}  // namespace

void skip_directive(TokenCursor& cursor) {
  std::string name = cursor.take().text;
  if (name == "file") return skip_file(cursor);
  if (name == "loc") return skip_location(cursor);
  skip_pragma(cursor);
}

}  // namespace softgpu::ptx
