// SPDX-License-Identifier: Apache-2.0
// The command `lockstep serve`.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/serve/serve.h"

enum { MOST_MODELS = 64 };

typedef struct serve_flags {
  const char **exports;
  size_t num_exports;
  int64_t threads;
  const char *math;
  cli_service service;
} serve_flags;

// Finds the exports, and the math that all of them have, unless one is given.
static ls_status locate_models(cli_service *service, serve_flags *flags) {
  cli_served *models = service->models;
  for (size_t i = 0; i < flags->num_exports; ++i) {
    ++service->num_models;
    LS_RETURN_IF_ERROR(cli_served_locate(flags->exports[i], &models[i]));
    if (flags->math == NULL && strcmp(models[i].math, models[0].math) != 0)
      return ls_invalid_argument(
          "'%s' is of math %s, '%s' of %s, and a server computes by one: start "
          "one for each, or give --math for all",
          models[0].folder, models[0].math, models[i].folder, models[i].math);
  }
  if (flags->math == NULL) flags->math = models[0].math;
  return ls_ok();
}

static ls_status load_models(cli_service *service) {
  for (size_t i = 0; i < service->num_models; ++i) {
    cli_served *model = &service->models[i];
    LS_RETURN_IF_ERROR(cli_served_load(model));
    LS_RETURN_IF_ERROR(cli_served_check_name(model));
    for (size_t k = 0; k < i; ++k)
      if (strcmp(service->models[k].name, model->name) == 0)
        return ls_invalid_argument(
            "'%s' and '%s' are both called '%s': name one, as in other=%s",
            service->models[k].folder, model->folder, model->name,
            model->folder);
    fprintf(stderr, "lockstep serve: loading '%s'\n", model->folder);
    LS_RETURN_IF_ERROR(cli_language_find(model));
    LS_RETURN_IF_ERROR(cli_language_warm(&model->language));
    for (size_t k = 0; k < model->num_signatures; ++k)
      LS_RETURN_IF_ERROR(
          cli_batcher_warm(service->batcher, &model->signatures[k]));
  }
  return ls_ok();
}

static ls_status serve_exports(cli_service *service) {
  ls_status status = cli_batcher_create(&service->limits, &service->batcher);
  if (ls_status_is_ok(status)) status = load_models(service);
  if (ls_status_is_ok(status)) status = cli_service_run(service);
  cli_batcher_destroy(service->batcher);
  return status;
}

// Serves until a signal; returns an exit code. A first signal asks for the end,
// a second one ends the program at once.
static int run_service(serve_flags *flags) {
  cli_service *service = &flags->service;
  CLI_OWN_MEMORY(cli_served, models) =
      cli_allocate(flags->num_exports * sizeof(*models));
  if (models == NULL) return cli_report("serve", ls_out_of_memory());
  service->models = models;
  ls_status status = locate_models(service, flags);
  if (ls_status_is_ok(status))
    status = cli_runtime_open(flags->threads, flags->math, &service->runtime);
  if (ls_status_is_ok(status)) {
    cli_signals_defer(0);
    cli_signals_saved();
    signal(SIGPIPE, SIG_IGN);
    status = cli_watch_begin(service->runtime);
  }
  if (ls_status_is_ok(status)) status = serve_exports(service);
  cli_watch_end();
  for (size_t i = 0; i < service->num_models; ++i)
    cli_served_close(&models[i]);
  return cli_runtime_close("serve", service->runtime,
                           cli_report("serve", status));
}

static bool check_flags(const serve_flags *flags) {
  const cli_service *service = &flags->service;
  if (flags->num_exports > MOST_MODELS)
    cli_say("serve", "more than %d exports", MOST_MODELS);
  else if (service->port > UINT16_MAX)
    cli_say("serve", "--port is %lld, expected at most %d",
            (long long)service->port, UINT16_MAX);
  else if (service->limits.max_batch > 1 << (CLI_BUCKETS - 1))
    cli_say("serve", "--max-batch is %lld, expected at most %d",
            (long long)service->limits.max_batch, 1 << (CLI_BUCKETS - 1));
  else if (service->limits.max_body > 1 << 16)
    cli_say("serve", "--max-body is %lld, expected at most %d",
            (long long)service->limits.max_body, 1 << 16);
  else
    return cli_check_math("serve", flags->math);
  return false;
}

int cli_serve(int argc, char **argv) {
  serve_flags flags = {.exports = (const char **)argv,
                       .service = {.address = "127.0.0.1",
                                   .port = 8080,
                                   .limits = {.max_batch = 64,
                                              .max_wait_us = 200,
                                              .max_queue = 1024,
                                              .timeout_s = 30,
                                              .max_body = 16,
                                              .max_tokens = 1024}}};
  cli_limits *limits = &flags.service.limits;
  const cli_option options[] = {
      {"port", CLI_COUNT_OR_ZERO, &flags.service.port, "N",
       "port to listen at (default 8080); 0: any free one"},
      {"address", CLI_TEXT, &flags.service.address, "ADDRESS",
       "address to listen at (default 127.0.0.1: this machine alone); 0.0.0.0: "
       "all of this machine's"},
      {"max-batch", CLI_COUNT, &limits->max_batch, "N",
       "largest number of rows that run together (default 64)"},
      {"max-wait-us", CLI_COUNT_OR_ZERO, &limits->max_wait_us, "N",
       "microseconds that a request waits for others to run with (default "
       "200)"},
      {"max-queue", CLI_COUNT, &limits->max_queue, "N",
       "requests that wait at most (default 1024); others are answered with "
       "503"},
      {"max-body", CLI_COUNT, &limits->max_body, "MIB",
       "largest body of a request in MiB (default 16)"},
      {"max-tokens", CLI_COUNT, &limits->max_tokens, "N",
       "bytes that a request for a text may add at most (default 1024)"},
      {"timeout", CLI_COUNT, &limits->timeout_s, "SECONDS",
       "time in which a header, a body, an answer or the wait in the queue "
       "must end (default 30)"},
      CLI_THREADS_OPTION(&flags.threads),
      CLI_DEVICE_OPTIONS,
      {"math", CLI_TEXT, &flags.math, "NAME",
       "fast or direct (default: that of the exports' runs, which must be one "
       "for all); see 'lockstep train'"},
  };
  const cli_syntax syntax = {
      .command = "serve",
      .about =
          "Answers predictions of exported models over HTTP, in the formats of "
          "TensorFlow Serving, JSON and npy: POST /v1/models/NAME:predict; of "
          "language models also texts: POST /v1/models/NAME:generate; GET "
          "/v1/models/NAME, /metrics and /healthz. Ctrl-C or SIGTERM ends it "
          "with code 0, once it has finished the predictions that it has; "
          "texts end with 503.",
      .subject = "[NAME=]EXPORT",
      .description = "the folder of an export, or one of several exports, "
                     "whose newest is served. Its name is that of the folder, "
                     "or of the one above if that is a number.",
      CLI_OPTIONS(options),
      .operand_form = "EXPORT...",
      .num_operands = &flags.num_exports};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  return check_flags(&flags) ? run_service(&flags) : CLI_USAGE;
}
