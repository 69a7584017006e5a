// SPDX-License-Identifier: Apache-2.0
//
// Runs tests/cases/*.ls. A file holds cases:
//
//   ==== what the case shows
//   graph text
//   ---- same | text | INVALID_ARGUMENT | UNIMPLEMENTED
//   what is expected
//
// `same`: it prints back as it stands. `text`: it prints as what follows, and
// that prints back as it stands. A code: parsing fails with it, and the
// message contains each of the lines that follow. The host kernel "echo" gives
// its input back.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/own.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "support/expect.h"

#ifndef LS_TESTS_DIR
#define LS_TESTS_DIR "tests"
#endif

static ls_status infer_echo(const ls_object *state, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  if (num_in != 1) return ls_invalid_argument("echo takes one input");
  out[0] = in[0];
  *num_out = 1;
  return ls_ok();
}
static ls_status start_echo(ls_host_call *call) {
  const ls_type type = call->input_types[0];
  memcpy(call->outputs[0], call->inputs[0],
         (size_t)ls_shape_num_elements(type.shape) * ls_dtype_size(type.dtype));
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel echo = {
    .name = "echo", .infer = infer_echo, .start = start_echo};
static const ls_host_kernel *const kernels[] = {&echo};

static int faults;

static void report(const char *file, const char *title, const char *what,
                   const char *wanted, const char *got) {
  fprintf(stderr, "%s, '%s': %s\n  wanted:\n%s\n  got:\n%s\n", file, title,
          what, wanted, got);
  ++faults;
}

// Prints what parses, else a status' message; the caller frees it.
static char *print_of(const char *text, ls_code *out_code) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(printed, printed) = NULL;
  LS_OWN(ls_status, status) = ls_graph_parse(text, kernels, 1, &graph);
  if (ls_status_is_ok(status)) status = ls_graph_print(graph, &printed);
  char *result =
      strdup(ls_status_is_ok(status) ? printed : ls_status_message(status));
  *out_code = ls_status_code(status);
  return result;
}

static void expect_text(const char *file, const char *title, const char *text,
                        const char *wanted) {
  ls_code code = LS_OK;
  HEAP(char, got) = print_of(text, &code);
  if (strcmp(got, wanted) != 0)
    report(file, title, ls_code_name(code), wanted, got);
}

static void expect_error(const char *file, const char *title, const char *text,
                         const char *wanted_code, char *lines) {
  ls_code code = LS_OK;
  HEAP(char, got) = print_of(text, &code);
  if (strcmp(ls_code_name(code), wanted_code) != 0)
    report(file, title, "another code", wanted_code, ls_code_name(code));
  char *rest = NULL;
  for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
       line = strtok_r(NULL, "\n", &rest))
    if (strstr(got, line) == NULL)
      report(file, title, "not in the message", line, got);
}

// `text` is what follows the title up to the next one.
static void run_case(const char *file, const char *title, char *text) {
  char *mark = strstr(text, "\n---- ");
  if (mark == NULL && strncmp(text, "---- ", 5) == 0) mark = text - 1;
  assert_non_null(mark);
  char *what = mark + strlen("\n---- ");
  char *expected = strchr(what, '\n');
  assert_non_null(expected);
  *expected++ = '\0';
  HEAP(char, input) = strdup(text);
  input[mark + 1 > text ? mark + 1 - text : 0] = '\0';
  if (strcmp(what, "same") == 0) {
    expect_text(file, title, input, input);
  } else if (strcmp(what, "text") == 0) {
    expect_text(file, title, input, expected);
    expect_text(file, title, expected, expected);
  } else {
    expect_error(file, title, input, what, expected);
  }
}

static size_t run_file(const char *file) {
  char path[4096];
  snprintf(path, sizeof(path), LS_TESTS_DIR "/cases/%s", file);
  FILE *stream = fopen(path, "rb");
  assert_non_null(stream);
  HEAP(char, text) = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_true(fread(text + 1, 1, (1 << 20) - 2, stream) < (1 << 20) - 2);
  fclose(stream);
  text[0] = '\n';
  size_t cases = 0;
  char *at = strstr(text, "\n==== ");
  while (at != NULL) {
    char *title = at + strlen("\n==== ");
    char *body = strchr(title, '\n');
    assert_non_null(body);
    at = strstr(body, "\n==== ");
    *body++ = '\0';
    if (at != NULL) at[1] = '\0';
    run_case(file, title, body);
    if (at != NULL) at[1] = '=';
    ++cases;
  }
  return cases;
}

static int is_case(const struct dirent *entry) {
  const size_t length = strlen(entry->d_name);
  return length > 3 && strcmp(entry->d_name + length - 3, ".ls") == 0;
}

TEST(every_case_gives_what_it_says) {
  struct dirent **entries = NULL;
  const int count =
      scandir(LS_TESTS_DIR "/cases", &entries, is_case, alphasort);
  assert_true(count > 0);
  size_t cases = 0;
  for (int i = 0; i < count; ++i) {
    const size_t found = run_file(entries[i]->d_name);
    assert_true(found > 0);
    cases += found;
    free(entries[i]);
  }
  free(entries);
  print_message("%zu cases in %d files\n", cases, count);
  assert_int_equal(faults, 0);
}
