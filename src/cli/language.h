// SPDX-License-Identifier: Apache-2.0
// Language models whose tokens are bytes, of runs and of exports: from a window
// of tokens i32 [1, N] to logits [1, N, CLASSES] of the token after each.
#ifndef LS_CLI_LANGUAGE_H_
#define LS_CLI_LANGUAGE_H_

#include "cli/data/data.h"
#include "lockstep/serving.h"

enum { CLI_BYTES = 256 };

typedef struct cli_language {
  int64_t tokens;   // Length N of a window.
  int64_t classes;  // Number of bytes that are tokens: at most 256.
  int64_t all;      // Number of all tokens.
  ls_decoder *decoder;
} cli_language;

// Calls `body` with the language model of a run, RUN or RUN@STEP, or of an
// export. Reports a failure; returns an exit code.
int cli_with_language(cli_run *run,
                      ls_status (*body)(void *user, cli_language *language),
                      void *user);
// Finds the language model of an export, if it is one, for its `language`.
struct cli_served;
ls_status cli_language_find(struct cli_served *served);
// Computes some logits of a decoder, if there is one, so that no text waits for
// a compilation.
ls_status cli_language_warm(cli_language *self);
// Makes the error for a model that is none.
ls_status cli_language_refuse(const char *name);
// Returns true if a model's examples are tokens, and its labels one for each.
bool cli_is_language(const ls_model_type *type);
// Calls `body` with the model of an open run.
//   LS_INVALID_ARGUMENT  it is no language model.
ls_status cli_language_of_run(const cli_run *run, const ls_train_config *config,
                              const ls_model_type *type,
                              ls_status (*body)(void *user,
                                                cli_language *language),
                              void *user);
// Prints a line of JSON for each line of texts, at most `limit` (0: all): the
// mean loss of its bytes and of the line's end after it, given the bytes
// before, and its perplexity.
ls_status cli_language_score(cli_language *self, const cli_files *files,
                             int64_t limit);

// ---- Texts ------------------------------------------------------------------
// Texts continued by a language model, byte by byte.
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

#endif  // LS_CLI_LANGUAGE_H_
