// SPDX-License-Identifier: Apache-2.0
// Texts continued by a language model, byte by byte.
#ifndef LS_CLI_WRITER_H_
#define LS_CLI_WRITER_H_

#include "cli/language.h"

// How bytes are drawn.
typedef struct cli_drawing {
  double temperature;  // 0: the most likely byte.
  int64_t top_k;       // Chooses among so many; 0: among all.
  int64_t seed;
} cli_drawing;

typedef struct cli_writer {
  cli_drawing drawing;
  cli_language *language;
  ls_function *choose;
  const ls_array *logits;  // Logits of the next byte; NULL: not computed yet.
  int32_t last;            // The last byte.
  ls_nest chosen;
} cli_writer;

ls_status cli_writer_open(const cli_drawing *drawing, cli_language *language,
                          cli_writer *out);
void cli_writer_close(cli_writer *self);
CLI_OWNED_STRUCT(cli_writer, cli_writer_close)

// Begins text number `sample` after a prompt, of which the last bytes count, as
// many as the model takes tokens; an empty one stands for a line's end.
//   LS_INVALID_ARGUMENT  a byte that is no class of the model.
ls_status cli_writer_begin(cli_writer *self, int64_t sample, const char *prompt,
                           size_t size);
// Chooses the next byte, which depends on model, prompt, drawing, `sample` and
// the bytes so far alone, not on threads.
ls_status cli_writer_next(cli_writer *self, unsigned char *out_byte);

#endif  // LS_CLI_WRITER_H_
