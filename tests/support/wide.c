// SPDX-License-Identifier: Apache-2.0
#include "support/wide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "support/replica_lanes.h"

enum { MOST_PAIRS = 32, MOST_BYTES = 1 << 17 };

// A list of one thing for each of `count` replicas.
static void append_list(ls_text *text, int32_t count, const char *before,
                        bool numbered, int first) {
  for (int32_t r = 0; r < count; ++r) {
    ls_text_append_format(text, "%s%s", r == 0 ? "" : ", ", before);
    if (numbered) ls_text_append_format(text, "%d", r + first);
  }
}

char *wide_expand(const char *template, int32_t replicas) {
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  for (; *template != '\0'; ++template) {
    if (*template != '$') {
      ls_text_append_char(&text, *template);
      continue;
    }
    const char what = *++template;
    if (what == 'R') ls_text_append_format(&text, "%d", replicas);
    if (what == 'A') append_list(&text, replicas, "%", true, 1);
    if (what == 'M') ls_text_append_format(&text, "%d", 7 * replicas);
    if (what == 'N') append_list(&text, replicas, "7", false, 0);
    if (what == 'T') append_list(&text, replicas, "f32[7]", false, 0);
    if (what == 'G') append_list(&text, replicas, "%9000:", true, 0);
    for (int32_t r = 0; what == 'P' && r < replicas; ++r)
      ls_text_append_format(&text,
                            "%%%d = parameter() {dtype = f32, "
                            "shape = shape[7], index = %d} : f32[7] ",
                            r + 1, r);
  }
  return ls_text_finish(&text);
}

// ---- The file --------------------------------------------------------------
static char file_text[MOST_BYTES];
static wide_pair pairs[MOST_PAIRS];
static size_t num_pairs;

// Ends the text before `mark` and returns what is behind it.
static char *cut_at(char *text, const char *mark) {
  char *at = strstr(text, mark);
  if (at == NULL) return NULL;
  *at = '\0';
  return at + strlen(mark);
}

static void read_pairs(const char *file) {
  FILE *stream = fopen(file, "rb");
  assert_non_null(stream);
  const size_t size = fread(file_text, 1, sizeof(file_text) - 1, stream);
  fclose(stream);
  assert_in_range(size, 1, sizeof(file_text) - 2);
  for (char *at = cut_at(file_text, "\n==== "); at != NULL;) {
    assert_in_range(num_pairs, 0, MOST_PAIRS - 1);
    char *next = cut_at(at, "\n==== ");
    char *whole = cut_at(at, "\n");
    char *cut = whole == NULL ? NULL : cut_at(whole, "\n---- cut\n");
    assert_non_null(cut);
    pairs[num_pairs++] = (wide_pair){at, whole, cut};
    at = next;
  }
}

const wide_pair *wide_pairs(const char *file, size_t *out_count) {
  if (num_pairs == 0) read_pairs(file);
  *out_count = num_pairs;
  return pairs;
}

const wide_pair *wide_pair_of(const char *what) {
  for (size_t i = 0; i < num_pairs; ++i)
    if (strcmp(pairs[i].what, what) == 0) return &pairs[i];
  fail_msg("no pair '%s'", what);
  return NULL;
}

// ---- Programs --------------------------------------------------------------
// Twice the operand, and so much more as the other one and the replica say;
// and the replica.
static ls_status infer_own(const ls_object *state, const ls_type *in,
                           size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  (void)num_in;
  out[0] = in[0];
  out[1] = (ls_type){LS_DTYPE_I32, LS_SCALAR};
  *num_out = 2;
  return ls_ok();
}

static ls_status start_own(ls_host_call *call) {
  const float *in = call->inputs[0], *more = call->inputs[1];
  float *out = call->outputs[0];
  if (call->input_types[0].shape.rank != 1 ||
      call->output_types[1].shape.rank != 0)
    return ls_internal("'own' is asked for more than one replica");
  for (size_t i = 0; i < LANES_WIDTH; ++i)
    out[i] = in[i] * 2 + more[0] * (float)call->replica + more[1];
  *(int32_t *)call->outputs[1] = call->replica;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel own = {
    .name = "own", .infer = infer_own, .start = start_own};
ls_status wide_create(const char *template, int32_t replicas, lowered *out) {
  const ls_host_kernel *const kernels[] = {&own};
  HEAP(char, text) = wide_expand(template, replicas);
  return lowered_create(&(lowered_options){.text = text,
                                           .kernels = kernels,
                                           .num_kernels = LS_COUNT_OF(kernels)},
                        out);
}

const void *const *wide_rows(void) {
  lanes_fill_values();
  for (size_t r = 0; r < LANES_MOST; ++r)
    for (size_t i = 0; i < LANES_WIDTH; ++i)
      lanes_values[r][i] *= 1e-10F;
  return lanes_rows;
}
