// SPDX-License-Identifier: Apache-2.0
// The chain of a run: lines of chain.jsonl about its configuration, data, saved
// files and metrics, each with the SHA-256 of the line before it and of itself.
//
//   {"event":"begin","step":0,"version":...,"numerics":...,"config":{...},
//    "metrics":{"bytes":0,"sha256":...},"before":"","sha256":...}
//   {"event":"data","step":0,"identity":...,"parts":[...],...}
//   {"event":"save","step":50,"parts":[...],"metrics":...,...}
//   {"event":"resume","step":50,...}   as "begin"; later steps are made again
//   {"event":"end","step":60,"parts":[...],"metrics":...,...}
//
// The lines of an estimator's training have "keep" beside "config".
// A part is a file of the run, or some of its data (below). `metrics` are the
// lines of metrics.jsonl so far.
#ifndef LS_TRAIN_CHAIN_CHAIN_H_
#define LS_TRAIN_CHAIN_CHAIN_H_

#include "base/threads/worker.h"
#include "data/dataset.h"
#include "io/json.h"
#include "io/sha256.h"

// ---- Parts ------------------------------------------------------------------
// Files of a run, and data sets in memory. A part's SHA-256 shows that it is
// the same; CRCs of its blocks show where it is not.

// Most blocks of a part.
enum { LS_PART_BLOCKS = 256 };

typedef struct ls_part {
  ls_sha256 sha;
  uint64_t bytes;    // Bytes so far.
  uint64_t block;    // Bytes of a block; 0: not begun.
  uint64_t element;  // Bytes of an element of a data set; 0: a file.
  uint32_t crcs[LS_PART_BLOCKS];
} ls_part;
// Begins a part with one block.
void ls_part_begin(ls_part *part);

// A reader of parts; its buffer is made at first use.
typedef struct ls_part_reader {
  ls_runtime *runtime;
  char *buffer;
  const ls_worker *worker;  // Reading ends early once it is stopped, if set.
} ls_part_reader;
void ls_part_reader_deinit(ls_part_reader *self);
LS_OWNED_STRUCT(ls_part_reader, ls_part_reader_deinit)

// Adds the bytes of a file from `from` up to `to` (-1: the end) to a part,
// which gets blocks for the file's size if it is zeroed.
LS_MUST_USE ls_status ls_part_add_file(ls_part_reader *self, const char *path,
                                       int64_t from, int64_t to, ls_part *part);
// Reads everything that data sets read, each source once, and passes each part
// with its name; one that has not begun cannot be read again. Data sets may be
// NULL.
//   LS_CANCELLED  the worker was stopped.
typedef ls_status (*ls_part_taker)(void *user, const char *name,
                                   const ls_part *part);
LS_MUST_USE ls_status ls_parts_of_data(ls_part_reader *self,
                                       const ls_dataset *const *datasets,
                                       size_t count, ls_part_taker take,
                                       void *user);

void ls_part_write(ls_json_writer *json, const char *name, const ls_part *part);
// Returns true if a part is the one that was written; else appends what
// differs: "has 9 bytes, it had 8", "differs in bytes 64 to 127 of 200".
bool ls_part_matches(const ls_json *written, const ls_part *part,
                     ls_text *difference);

#define LS_CHAIN_FILE "chain.jsonl"

// ---- Reading ---------------------------------------------------------------
typedef struct ls_chain_line {
  const ls_json *root;  // NULL: its bytes have another hash than it says.
  bool follows;         // It names the hash of the line before it.
} ls_chain_line;

typedef struct ls_chain_lines {
  ls_arena arena;
  ls_allocator *allocator;
  char *text;
  size_t size, complete;  // Bytes of the file, and of complete lines.
  ls_chain_line *items;
  size_t count;
  char head[LS_SHA256_TEXT];  // The hash that the last line says it has.
} ls_chain_lines;
// Reads the chain of the run in a folder. LS_NOT_FOUND: it has none.
LS_MUST_USE ls_status ls_chain_read(ls_runtime *runtime, const char *folder,
                                    ls_chain_lines *out);
void ls_chain_lines_deinit(ls_chain_lines *self);
LS_OWNED_STRUCT(ls_chain_lines, ls_chain_lines_deinit)

// Return a member's text, "" if there is none, and its whole number, else -1.
const char *ls_chain_text(const ls_json *object, const char *key);
int64_t ls_chain_number(const ls_json *object, const char *key);

// ---- Writing ---------------------------------------------------------------
// Zeroed: no chain, for which all functions do nothing. One thread at a time
// writes: that of the run, or that of its saves.
typedef struct ls_chain {
  ls_runtime *runtime;
  const char *folder;
  bool has_lines;             // The file has lines of this chain,
  bool is_torn;               // and may have a part of one behind them.
  char head[LS_SHA256_TEXT];  // Hash of the last line; "" before the first.
  ls_sha256 metrics;          // Lines of metrics.jsonl at the last save.
  ls_text path, text;
  ls_part_reader reader;
  // Hashes the data while steps are made.
  ls_worker worker;
  const ls_dataset *data[2];
  const char *identity;  // Identity of the data; NULL: the chain has them.
  ls_text parts;
  ls_status failure;
} ls_chain;

// Facts that a chain begins with. Everything but texts of the call is lent.
typedef struct ls_chain_start {
  const char *folder;
  bool resumes;  // The chain in the folder goes on,
  bool attest;   // and one begins if there is none.
  int64_t step;
  int64_t keep;  // Number of newest checkpoints that stay; 0: `config` has it.
  const char *config, *numerics, *identity;
  const ls_dataset *train, *test;
  const ls_sha256 *metrics;
} ls_chain_start;
// Begins the chain, or goes on with it, and begins to hash the data unless that
// was done.
LS_MUST_USE ls_status ls_chain_begin(ls_chain *self, ls_runtime *runtime,
                                     const ls_chain_start *start);
// Adds the checkpoint of a step; the chain's `metrics` were set when its values
// were copied. For ls_checkpoints_on_written.
LS_MUST_USE ls_status ls_chain_save(void *self, int64_t step);
// Adds the end: the file of the model, unless it is NULL, and the data, whose
// failure it returns. A run that `stops` does not wait until they are hashed:
// it does that when it goes on.
LS_MUST_USE ls_status ls_chain_end(ls_chain *self, int64_t step,
                                   const char *model, bool stops,
                                   const ls_sha256 *metrics);
void ls_chain_deinit(ls_chain *self);

#endif  // LS_TRAIN_CHAIN_CHAIN_H_
