// SPDX-License-Identifier: Apache-2.0
// lockstep verify: checks a run against its chain of hashes, and makes some of
// its steps again.
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/again/replay.h"

static const char command[] = "verify";

// Steps from a checkpoint, or the start, to the next one, or the last recorded.
typedef struct segment {
  int64_t from, to;
  const char *lacks;  // Reason for which it cannot be made again; NULL: it can.
} segment;

typedef struct verifying {
  cli_replaying replaying;
  int64_t count, seed;  // Segments to make again, and the seed of their draw.
  bool all;
  const char *head;
  ls_chain_result chain, data;
  bool is_checked;  // The data were checked.
  segment *segments;
  size_t num_segments;
  int64_t made;         // Steps made again.
  int64_t first, last;  // The step before the first, and the last recorded.
} verifying;

static void print_report(void *user, const char *text, bool differs) {
  (void)user;
  printf("%s%s\n", differs ? "" : "note: ", text);
}

// ---- The folder ------------------------------------------------------------
static void add_segment(verifying *v, int64_t to) {
  if (to <= v->last) return;
  v->segments[v->num_segments++] = (segment){.from = v->last, .to = to};
  v->last = to;
}

// Returns true for members of configurations on which no step depends.
static bool is_free(const char *key) {
  static const char *const keys[] = {
      "threads",       "model",      "data",   "test",
      "gradient_norm", "test_steps", "crc32c", "iterations_per_loop"};
  for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); ++i)
    if (strcmp(key, keys[i]) == 0) return true;
  return cli_train_is_setting(key);
}

// Skips the path of a library in an optimizer's "/dir/mine.so:NAME": the hash of
// the file tells whether it is another.
static void skip_path(cli_member *optimizer) {
  const char *name = memrchr(optimizer->value, ':', optimizer->value_size);
  if (name == NULL) return;
  optimizer->value_size -= (size_t)(name - optimizer->value);
  optimizer->value = name;
}

// Finds members of a part's configuration that another part's has otherwise.
// Returns the reason for which steps of both cannot be made again at once;
// NULL: they can.
static const char *find_change(const char *before, const char *after,
                               bool is_end_free) {
  const char *found = NULL;
  cli_member one, other;
  for (const char *at = before; cli_json_next(&at, &one);) {
    char key[64];
    snprintf(key, sizeof(key), "%.*s", (int)one.key_size, one.key);
    const bool is_kept = cli_json_find(after, key, &other);
    if (is_kept && strcmp(key, "optimizer") == 0) {
      skip_path(&one);
      skip_path(&other);
    }
    if (is_free(key) ||
        (is_kept && one.value_size == other.value_size &&
         memcmp(one.value, other.value, one.value_size) == 0))
      continue;
    const bool is_end = strcmp(key, "steps") == 0 || strcmp(key, "epochs") == 0;
    if (is_end && is_end_free) continue;
    if (is_end)
      return "the run went on to another end, from a checkpoint that is gone";
    found = "the run went on with other flags, from a checkpoint that is gone";
  }
  return found;
}

// Marks segments in which a run went on otherwise, as the chain says.
static ls_status cut_segments(const verifying *v) {
  CLI_OWN_MEMORY(char, text) = NULL;
  cli_line line = {.text = NULL};
  cli_member config, schedule, before = {.value = NULL};
  LS_RETURN_IF_ERROR(
      cli_read_text(v->replaying.folder, "chain.jsonl", &text, NULL));
  const char *at = text;
  for (cli_line_next(&at, &line); line.text != NULL;
       cli_line_next(&at, &line)) {
    if (!cli_json_find(line.text, "config", &config)) continue;
    // An estimator's rates depend on the end by its schedule alone.
    const bool is_end_free =
        v->replaying.estimator != NULL &&
        (!cli_json_find(config.value, "schedule", &schedule) ||
         strncmp(schedule.value, "\"constant\"", 10) == 0);
    const char *change = NULL;
    if (before.value != NULL)
      change = find_change(before.value, config.value, is_end_free);
    if (before.value != NULL && change == NULL)
      change = find_change(config.value, before.value, is_end_free);
    for (size_t i = 0; i < v->num_segments && change != NULL; ++i)
      if (v->segments[i].from < line.step && line.step < v->segments[i].to)
        v->segments[i].lacks = change;
    before = config;
  }
  return ls_ok();
}

static ls_status find_segments(verifying *v) {
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  CLI_OWN_MEMORY(char, text) = NULL;
  const char *folder = v->replaying.folder;
  size_t count = 0, kept = 0;
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(folder, &steps, &count));
  LS_RETURN_IF_ERROR(cli_read_text(folder, "metrics.jsonl", &text, NULL));
  LS_RETURN_IF_ERROR(
      cli_find_first_step(folder, v->replaying.estimator != NULL, &v->first));
  CLI_SET_ARRAY_OR_RETURN(v->segments, count + 1);
  bool begins = v->first == 0;
  v->last = v->first;
  for (size_t i = 0; i < count; ++i) {
    begins |= steps[i] == v->first;
    add_segment(v, steps[i]);
  }
  add_segment(v, cli_last_step(text));
  LS_RETURN_IF_ERROR(cut_segments(v));
  if (!begins && v->num_segments > 0)
    v->segments[0].lacks = "the run goes on from a checkpoint of another one";
  for (size_t i = 0; i < v->num_segments; ++i) {
    const segment *s = &v->segments[i];
    if (s->lacks != NULL)
      printf("note: steps %lld to %lld cannot be made again: %s\n",
             (long long)s->from, (long long)s->to, s->lacks);
    else
      v->segments[kept++] = *s;
  }
  v->num_segments = kept;
  return ls_ok();
}

static ls_status check_folder(void *user) {
  verifying *v = user;
  ls_chain_result *chain = &v->chain;
  const ls_chain_report report = {print_report, NULL};
  LS_RETURN_IF_ERROR(cli_recover_run(v->replaying.folder));
  LS_RETURN_IF_ERROR(ls_chain_check(v->replaying.folder, &report, chain));
  if (v->head != NULL && strcmp(v->head, chain->head) != 0) {
    printf("chain.jsonl: its head is %s, not %s\n", chain->head, v->head);
    ++chain->differences;
  }
  if (chain->differences > 0) return ls_ok();
  printf("%lld lines of the chain, %lld checkpoint%s and the metrics are the "
         "same; %lld checkpoint%s gone; head %s\n",
         (long long)chain->lines, (long long)chain->checkpoints,
         chain->checkpoints == 1 ? "" : "s", (long long)chain->gone,
         chain->gone == 1 ? " is" : "s are", chain->head);
  return find_segments(v);
}

// ---- The data --------------------------------------------------------------
static ls_status check_data(void *user, const ls_dataset *train,
                            const ls_dataset *test) {
  verifying *v = user;
  const ls_chain_report report = {print_report, NULL};
  if (v->is_checked) return ls_ok();
  v->is_checked = true;
  LS_RETURN_IF_ERROR(
      ls_chain_check_data(v->replaying.folder, train, test, &report, &v->data));
  if (v->data.parts > 0 && v->data.differences == 0)
    printf("%lld part%s of the data %s the same\n", (long long)v->data.parts,
           v->data.parts == 1 ? "" : "s", v->data.parts == 1 ? "is" : "are");
  return ls_ok();
}

// ---- Steps -----------------------------------------------------------------
// Draws a number below `limit` (splitmix64).
static uint64_t draw_below(uint64_t *state, uint64_t limit) {
  uint64_t bits = *state += UINT64_C(0x9e3779b97f4a7c15);
  bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
  return (bits ^ bits >> 31) % limit;
}

static int make_again(const cli_syntax *syntax, verifying *v, int64_t from,
                      int64_t to) {
  cli_replaying *r = &v->replaying;
  r->from = from;
  r->to = to;
  const int code = cli_replay_steps(syntax, r);
  if (code == CLI_OK && !r->again.is_checked) v->made += r->to - r->began;
  return code;
}

// Keeps segments that are drawn.
static void draw_segments(verifying *v, uint64_t wanted) {
  uint64_t state = (uint64_t)v->seed;
  const uint64_t count = v->num_segments;
  v->num_segments = 0;
  for (uint64_t i = 0; i < count && wanted > 0; ++i) {
    if (draw_below(&state, count - i) >= wanted) continue;
    v->segments[v->num_segments++] = v->segments[i];
    --wanted;
  }
}

// Makes the steps of segments that are drawn, those in a row at once unless the
// run went on to another end; without any checks the data alone.
static int make_segments(const cli_syntax *syntax, verifying *v) {
  int code = CLI_OK;
  if (!v->all) draw_segments(v, (uint64_t)v->count);
  if (v->num_segments == 0) {
    v->replaying.again.is_checked = true;
    return make_again(syntax, v, -1, -1);
  }
  for (size_t i = 0; i < v->num_segments && code == CLI_OK; ++i) {
    int64_t from = v->segments[i].from;
    while (i + 1 < v->num_segments &&
           v->segments[i + 1].from == v->segments[i].to)
      ++i;
    for (; from < v->segments[i].to && code == CLI_OK; from = v->replaying.to)
      code = make_again(syntax, v, from, v->segments[i].to);
  }
  return code;
}

// ---- The command -----------------------------------------------------------
static int print_result(const verifying *v, int code) {
  const char *folder = v->replaying.folder;
  const int64_t differences = v->chain.differences + v->data.differences;
  if (code == CLI_USAGE || code >= CLI_SIGNAL) return code;
  if (differences > 0)
    printf("not verified: '%s' has %lld difference%s from its chain\n", folder,
           (long long)differences, differences == 1 ? "" : "s");
  else if (code != CLI_OK)
    printf("not verified: '%s' is as its chain says, but its steps %s\n",
           folder,
           v->replaying.differs ? "made again are not"
                                : "could not be made again");
  else
    printf("verified: '%s' is as its chain says, and %lld of its %lld steps "
           "made again have its bits\n",
           folder, (long long)v->made, (long long)(v->last - v->first));
  return differences > 0 ? CLI_FAILED : code;
}

static int verify(const cli_syntax *syntax, verifying *v) {
  int code = cli_with_runtime(command, check_folder, v);
  if (code != CLI_OK) return code;
  if (v->chain.differences == 0) code = make_segments(syntax, v);
  code = print_result(v, code);
  cli_release(v->segments);
  return code;
}

int cli_verify(int argc, char **argv) {
  verifying v = {.count = 1};
  cli_replay_init(&v.replaying, command);
  v.replaying.again.check = check_data;
  v.replaying.again.check_user = &v;
  const cli_option options[] = {
      {"segments", CLI_COUNT_OR_ZERO, &v.count, "K",
       "make the steps between two checkpoints again, K times (default 1; 0: "
       "none)"},
      {"seed", CLI_COUNT_OR_ZERO, &v.seed, "N", "seed of the draw of segments"},
      {"all", CLI_FLAG, &v.all, NULL, "make all steps again"},
      {"head", CLI_TEXT, &v.head, "HASH",
       "the hash of the chain's last line must be this one"},
      CLI_REPLAY_OPTIONS(&v.replaying.flags),
  };
  const cli_syntax syntax = {
      .command = command,
      .about = "Checks a run that was trained with --attest: its "
               "configuration, data, metrics and checkpoints against the chain "
               "of hashes in chain.jsonl, every byte, and the steps between "
               "checkpoints that a seed draws, by making them again. Names "
               "what differs. Ends with code 0 if nothing does, else 1. "
               "Nothing in the run's folder is changed.",
      CLI_OPTIONS(options),
      .operand_form = "RUN",
      .operand = &v.replaying.folder};
  int code = CLI_OK;
  if (!cli_replay_parse(&syntax, argc, argv, &v.replaying, &code)) return code;
  return verify(&syntax, &v);
}
