// SPDX-License-Identifier: Apache-2.0
// Parts of `lockstep serve`: models and their signatures, requests as arrays,
// answers, the batcher, metrics, and the HTTP server.
//
// A request's way: the server's threads read a body and make arrays of it
// (request.c); the batcher runs the rows of several requests together
// (batcher.c); the server's threads write the answer (answer.c).
#ifndef LS_CLI_SERVE_SERVE_H_
#define LS_CLI_SERVE_SERVE_H_

#include "cli/data/json_text.h"
#include "cli/language.h"
#include "lockstep/serving.h"

// ---- Texts in memory -------------------------------------------------------
// A text that a FILE writes.
typedef struct cli_buffer {
  char *data;  // Memory of cli_allocate.
  size_t size, capacity;
  bool failed;  // Without memory.
} cli_buffer;
bool cli_buffer_append(cli_buffer *buffer, const void *data, size_t size);
// Opens a file that appends to the buffer; NULL without memory. Closing it
// completes the text.
FILE *cli_buffer_open(cli_buffer *buffer);

// ---- Models ----------------------------------------------------------------
// Arrays of a batch size, made at its first run.
typedef struct cli_bucket {
  ls_nest inputs, outputs;  // Dicts of arrays.
} cli_bucket;

enum { CLI_BUCKETS = 16, CLI_SHAPES = 64, CLI_VALUES = 32 };

typedef struct cli_signature {
  const struct cli_served *model;
  ls_serving_info info;
  // Rows of several requests run together: the first size of every input and
  // output is unknown, all others are known, and none has strings.
  bool batched;
  cli_bucket buckets[CLI_BUCKETS];  // One per power of two.
  // Hashes of the shapes run so far, if its requests run one by one.
  uint64_t shapes[CLI_SHAPES];
  size_t num_shapes;
} cli_signature;

// A loaded export.
typedef struct cli_served {
  char *name;
  char *folder;
  ls_serving *serving;
  cli_signature *signatures;
  size_t num_signatures;
  bool is_run;               // `lockstep export` made it of a model's run.
  const char *math;          // The run's; fast if it is unknown.
  char *classes;             // Names of classes, one per line; NULL: none.
  ls_train_config *config;   // The run's configuration; NULL: unknown.
  cli_language language;     // No decoder: it is no language model.
  struct cli_text *writing;  // The text that its decoder computes.
} cli_served;

// Finds the export that a word of the command line names, "[NAME=]FOLDER", or
// the newest in a folder of exports, and the math with which to load it.
ls_status cli_served_locate(const char *word, cli_served *out);
// Loads a located export.
ls_status cli_served_load(cli_served *model);
// Refuses a name that cannot stand in addresses.
ls_status cli_served_check_name(const cli_served *model);
void cli_served_close(cli_served *model);  // Accepts a zeroed model.
// Returns true for the folder of an export, or of several.
bool cli_is_export(const char *folder);
// Calls `body` with the export that a command names instead of a run, under a
// runtime. Reports a failure; returns an exit code.
int cli_with_export(const cli_run *run,
                    ls_status (*body)(void *user, cli_served *served),
                    void *user);
// Sets the fields that follow from `info`.
void cli_signature_init(const cli_served *model, const ls_serving_info *info,
                        cli_signature *out);
// Returns the name of the export's folder if that is a number, else "1".
const char *cli_served_version(const cli_served *model);
// Finds a signature by its key. LS_NOT_FOUND lists all keys.
ls_status cli_served_find(const cli_served *model, const char *key,
                          cli_signature **out);
// Writes the description of a model as JSON.
void cli_served_describe(FILE *to, const cli_served *model);

// ---- Requests --------------------------------------------------------------
// A request, with its inputs as arrays.
typedef struct cli_request {
  cli_signature *signature;
  bool columns;    // "inputs": the answer has whole arrays, not rows.
  int64_t rows;    // First size of all inputs; -1: they have none in common.
  ls_nest inputs;  // A dict of arrays in the order of the signature's inputs.
} cli_request;

typedef enum cli_body_kind { CLI_BODY_JSON, CLI_BODY_NPY } cli_body_kind;

// Reads the body of a request. `key` is the signature's (NULL: the body's, or
// the default). Any bytes give a request, which the caller closes, or an error.
//   LS_NOT_FOUND         no such signature.
//   LS_INVALID_ARGUMENT  names the position or the input, and what would do.
ls_status cli_request_parse(const cli_served *model, const char *key,
                            cli_body_kind kind, const char *body, size_t size,
                            cli_request *out);
void cli_request_close(cli_request *request);
// Replaces checked rows by rows of numbers where the model's columns are known
// and rows have texts, or names of columns: they are then in `text`, which the
// caller frees (cli_release of its data).
ls_status cli_expand_columns(const cli_signature *signature, int64_t count,
                             cli_cursor *rows, cli_buffer *text);
// Returns true if u8 arrays are accepted for a f32 input, and divided by 255 as
// in training: images of an export that `lockstep export` made.
bool cli_takes_bytes(const ls_serving_value *input);

// Writes the outputs of a request as JSON.
ls_status cli_answer_json(FILE *to, const cli_request *request,
                          ls_nest outputs);
// Makes the bytes of an npy file of an output: `name`, or the only one.
ls_status cli_answer_npy(const cli_request *request, ls_nest outputs,
                         const char *name, ls_array **out_bytes);

// ---- Texts -----------------------------------------------------------------
// A text to be continued by a language model.
typedef struct cli_text cli_text;
// Reads the body of a request, {"prompt": "...", "tokens": 200, ...}: members
// have the names of the flags of `lockstep generate`.
//   LS_INVALID_ARGUMENT  names the member or position, and what would do; more
//                        than `most_tokens`; the model is no language model.
ls_status cli_text_parse(cli_served *model, const char *body, size_t size,
                         int64_t most_tokens, cli_text **out);
void cli_text_close(cli_text *text);  // NULL is fine.
typedef enum cli_text_state {
  CLI_TEXT_WAITS,  // The model computes another text.
  CLI_TEXT_RUNS,
  CLI_TEXT_DONE,  // It is complete, or has failed.
} cli_text_state;
// Adds a byte, or ends the text if `status` is a failure, which it returns. The
// batcher's thread.
ls_status cli_text_run(cli_text *text, ls_status status,
                       cli_text_state *out_state);
// Writes the prompt and what follows it: as JSON, where bytes that are no UTF-8
// become U+FFFD, or as they are.
ls_status cli_text_answer(FILE *to, const cli_text *text, bool as_json);

// ---- The batcher -----------------------------------------------------------
typedef struct cli_job cli_job;
struct cli_job {
  cli_text *text;  // NULL: a prediction, of
  cli_request request;
  ls_nest outputs;  // A dict of arrays, once it is finished.
  ls_status status;
  // Called by the batcher's thread: before each byte of a text, which a failure
  // ends; once it is finished.
  ls_status (*check)(const cli_job *job);
  void (*finish)(cli_job *job);
  void *user;
  int64_t queued_ns;
  int64_t held_bytes;             // See cli_batcher_hold.
  int64_t begun_rows, done_rows;  // Progress of a batched signature's rows;
                                  // begun_rows is 1 once a text has begun.
  cli_job *next;
};

typedef struct cli_limits {
  int64_t max_batch, max_wait_us, max_queue, timeout_s;
  int64_t max_body;    // In MiB.
  int64_t max_tokens;  // Bytes that a request for a text adds at most.
} cli_limits;

typedef struct cli_batcher cli_batcher;
ls_status cli_batcher_create(const cli_limits *limits, cli_batcher **out);
void cli_batcher_destroy(cli_batcher *batcher);  // NULL is fine; no jobs left.
// Reserves a place in the queue for a job. Returns false if it is full.
bool cli_batcher_reserve(cli_batcher *batcher);
// Makes room for a batched job's outputs.
//   LS_INVALID_ARGUMENT  more than 16 times the largest body.
//   LS_UNAVAILABLE       too many bytes of all jobs.
ls_status cli_batcher_prepare(cli_batcher *batcher, cli_job *job);
// Sets the bytes that a job's outputs, or its answer, have in memory.
void cli_batcher_hold(cli_batcher *batcher, cli_job *job, int64_t bytes);
// Adds a job at its reserved place. Any thread.
void cli_batcher_add(cli_batcher *batcher, cli_job *job);
// Runs jobs until there are none, or waits up to `wait_ms` for one. Returns
// false if there was none.
bool cli_batcher_run(cli_batcher *batcher, int wait_ms);
// Runs each batch size of a signature once, so that no request waits for its
// compilation.
ls_status cli_batcher_warm(cli_batcher *batcher, cli_signature *signature);
int64_t cli_batcher_waiting(const cli_batcher *batcher);

// ---- Metrics ---------------------------------------------------------------
// Count an answer and its time, and a run of the batcher. Any thread.
void cli_metrics_answer(int code, int64_t ns);
void cli_metrics_batch(int64_t rows);
// Writes all metrics in Prometheus's text format.
void cli_metrics_write(FILE *to, int64_t waiting);
int64_t cli_metrics_answers(void);  // All answers so far.
int64_t cli_now_ns(void);           // A monotonic clock.

// ---- The server ------------------------------------------------------------
typedef struct cli_service {
  ls_runtime *runtime;
  cli_served *models;
  size_t num_models;
  cli_limits limits;
  const char *address;
  int64_t port;
  cli_batcher *batcher;
} cli_service;
// Serves until a signal asks for the end, then finishes the predictions that it
// has, and ends texts.
//   LS_UNIMPLEMENTED  the program was built without libmicrohttpd.
ls_status cli_service_run(cli_service *service);

#endif  // LS_CLI_SERVE_SERVE_H_
