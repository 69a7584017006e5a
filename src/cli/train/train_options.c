// SPDX-License-Identifier: Apache-2.0
// The table of flags of lockstep train, which other commands extend.
#include <string.h>

#include "cli/train/train_flags.h"

enum { MOST_OPTIONS = 80 };

// Returns true if a command has no such flag, or has it with a row of its own.
static bool is_left_out(const cli_syntax *syntax, const char *name) {
  if (syntax->operand_form != NULL && strcmp(name, "model") == 0) return true;
  return cli_refusal_find(&syntax->refused, name, strlen(name)) != NULL ||
         cli_option_find(syntax, name, strlen(name)) != NULL;
}

// Appends the rows of `train` that a command has, and then its own; returns the
// number of all.
static size_t append_options(const cli_syntax *syntax, const cli_option *from,
                             size_t num_from, cli_option *options) {
  size_t count = 0;
  for (size_t i = 0; i < num_from && count < MOST_OPTIONS; ++i)
    if (!is_left_out(syntax, from[i].name)) options[count++] = from[i];
  for (size_t i = 0; i < syntax->num_options && count < MOST_OPTIONS; ++i)
    options[count++] = syntax->options[i];
  return count;
}

// Writes the rows of `train`, with destinations in `flags`, and returns their
// number. A command with a model as its operand has no --model.
static size_t list_options(train_flags *flags, const cli_syntax *syntax,
                           cli_option *out_options) {
  ls_train_config *asked = &flags->asked;
  const bool may_save_alone =
      syntax->subject == NULL && strcmp(syntax->command, "train") == 0;
  const cli_option options[] = {
      {"config", CLI_TEXT, &flags->config, "FILE",
       "flags from a file: a model's run or config.json, or estimator.json, to "
       "train as that run was, or one written by hand, {\"model\":\"cnn\", "
       "\"batch_size\":64}; flags of "
       "the command line win"},
      {"model", CLI_TEXT, &asked->model, "NAME",
       "the model (default mlp); see 'lockstep help'; or an ONNX or StableHLO "
       "file (.onnx, .mlir) of a classifier, whose weights it begins with; or "
       "a shared library of models: ./mine.so, ./mine.so:NAME; or of "
       "estimators, which have flags of their own: add --help to list them"},
      CLI_AS_ESTIMATOR_OPTION(&flags->estimator),
      {"data", CLI_TEXT, &asked->data, "NAME|PATH",
       "fashion-mnist (default), synthetic, a folder with the four IDX files "
       "of MNIST or a similar set or with a folder of PNG or JPEG images for "
       "each class, .npz, .csv, .jsonl or .tfrecord files, IDX or .npy as "
       "EXAMPLES,LABELS, or, for a model that learns from text, any file or a "
       "folder of .txt files; several files by a pattern: 'train-*.csv'"},
      {"test", CLI_TEXT, &asked->test, "PATH",
       "other files to test on (default: the test set of the data, else the "
       "part held out by --split); none: train on all examples and do not "
       "test"},
      {"split", CLI_REAL, &asked->split, "X",
       "fraction of data without a test set to hold out for the test, always "
       "the same examples (default 0.1)"},
      {"test-steps", CLI_COUNT, &asked->test_steps, "N",
       "test on the first N batches of the test set (default: all of it)"},
      CLI_FEATURES_OPTION(&asked->features),
      {"label", CLI_TEXT, &flags->label, "A,B",
       "the columns of a CSV file that are labels: one, or with --task "
       "regression or multi-label several; short for --features '*;A,B'"},
      CLI_TASK_OPTION(&asked->task),
      CLI_OUTPUTS_OPTION(&asked->outputs,
                         "the model's, or as many as the data have"),
      {"one-hot", CLI_TEXT, &asked->one_hot, "COLUMN,...",
       "columns of texts, each of which becomes a number of the examples: 1 "
       "for rows that have it, 0 for all others"},
      CLI_MISSING_OPTION(&asked->missing),
      {"normalize", CLI_FLAG, &flags->normalize, NULL,
       "subtract the mean from each number of the examples (of images: from "
       "each channel) and divide by the deviation, both of the training set; "
       "they are a part of the model"},
      {"flip", CLI_FLAG, &flags->flip, NULL,
       "flip images of the training set left to right, half of them at random, "
       "others in each epoch"},
      {"crop", CLI_COUNT, &asked->crop, "PIXELS",
       "move images of the training set by up to so many pixels in each "
       "direction at random; 0 comes in at the border"},
      {"replicas", CLI_COUNT, &asked->replicas, "N",
       "replicas that share each batch (default 1)"},
      {"tpu", CLI_TEXT, &flags->tpu, "NAME",
       "one replica per core of this TPU system, with the same bits: "
       "virtual:2x2, with ,cores=N and ,hosts=N for other pods; local: this "
       "machine's"},
      {"iterations-per-loop", CLI_COUNT, &flags->iterations, "N",
       "steps per program (default 1), with the same bits; fewer before the "
       "end of an epoch, a save by steps or a line of metrics.jsonl"},
      CLI_THREADS_OPTION(&asked->threads),
      CLI_DEVICE_OPTIONS,
      CLI_BATCH_OPTION(&asked->batch_size),
      {"epochs", CLI_COUNT, &asked->epochs, "N",
       "passes over the training set (default: the model's)"},
      {"steps", may_save_alone ? CLI_COUNT_OR_ZERO : CLI_COUNT,
       may_save_alone ? &flags->steps : &asked->steps, "N",
       may_save_alone ? "end after N steps (default: complete epochs); 0: save "
                        "the initial weights, without a step"
                      : "end after N steps (default: complete epochs)"},
      {"stop-early", CLI_TEXT, &asked->stop_early, "METRIC",
       "end once test_loss or test_accuracy (of regression: test_mae) has not "
       "become better for --patience epochs; METRIC:min or METRIC:max says "
       "what is better; its best checkpoint is kept, unless by --keep-best "
       "another"},
      {"patience", CLI_COUNT, &asked->patience, "N",
       "epochs without a better value (default 3)"},
      {"min-delta", CLI_REAL, &asked->min_delta, "X",
       "gain that counts as better must be above this (default 0)"},
      {"optimizer", CLI_TEXT, &asked->optimizer, "NAME",
       "sgd, momentum, nesterov, adam, adamw, lamb, adagrad, rmsprop or lion "
       "(default: the model's own); or one of a shared library: ./mine.so, "
       "./mine.so:NAME"},
      {"learning-rate", CLI_REAL, &asked->learning_rate, "X",
       "initial learning rate (default: the optimizer's)"},
      {"find-lr", CLI_MAYBE, &flags->find_lr, "[LOW:HIGH]",
       "train with a rate that grows from step to step (default: from 1e-6 to "
       "10 in 100 steps, or --steps), and print the losses and which rate to "
       "take; leaves no run"},
      {"schedule", CLI_TEXT, &asked->schedule, "NAME",
       "linear (default): the rate falls to 0 over the run; constant; cosine, "
       "with --optimizer: the rate falls along a cosine"},
      {"warmup", CLI_COUNT, &asked->warmup, "N",
       "initial steps with a rising rate; with --optimizer"},
      {"weight-decay", CLI_REAL, &asked->weight_decay, "X",
       "with --optimizer (default: its own)"},
      {"clip-norm", CLI_REAL, &asked->clip_norm, "X",
       "largest norm of the gradients of all weights; with --optimizer"},
      {"accumulate", CLI_COUNT, &asked->accumulate, "N",
       "batches per step of the optimizer, which applies their mean gradient; "
       "with --optimizer"},
      CLI_PRECISION_OPTION(&asked->precision),
      CLI_MATH_OPTION(&asked->math),
      {"seed", CLI_COUNT_OR_ZERO, &asked->seed, "N",
       "seed of initial weights and order of examples (default 0)"},
      {"seeds", CLI_COUNT, &flags->seeds, "N",
       "train N runs, with this seed and the next ones, in "
       "--run-dir/seed-SEED, and print mean and deviation of their results"},
      {"run-dir", CLI_TEXT, &flags->run_folder, "DIR",
       "folder of the run (default: a new runs/MODEL-N)"},
      {"overwrite", CLI_FLAG, &flags->overwrite, NULL,
       "replace the run in --run-dir; it is kept until the new one has a "
       "checkpoint, and restored if that fails"},
      {"resume", CLI_TEXT, &flags->resume, "DIR[@STEP]",
       "continue the run there as if it had not stopped, with its flags (but "
       "those of the process, as docs/checkpoints.md lists); --epochs or "
       "--steps change its end, and the schedule with it; --data, --model and "
       "--optimizer give the new paths of its files and its shared libraries; "
       "with @STEP, @best or as DIR/model.ckpt-STEP, go on from this "
       "checkpoint in a new folder (--run-dir); auto: the run in --run-dir if "
       "it has a checkpoint, else a new one"},
      {"warm-start", CLI_TEXT, &asked->warm_start, "PATH",
       "start with the values of another run, also RUN@STEP or RUN@best, a "
       "checkpoint, or a .safetensors or .npz file, except the optimizer's; "
       "kernels are [inputs, outputs], unless --layout is torch"},
      {"only", CLI_TEXT, &asked->warm_only, "A,B",
       "only these variables: 'dense/*,head/bias'"},
      {"except", CLI_TEXT, &asked->warm_except, "A,B",
       "except these variables"},
      {"layout", CLI_TEXT, &asked->warm_layout, "own|torch",
       "layout of the file's kernels; torch: [outputs, inputs, height, width], "
       "which are permuted; a dense layer after a convolution needs its "
       "flattened images' channels, height and width: "
       "torch,hidden/kernel=64x14x14"},
      {"map", CLI_TEXT, &asked->warm_map, "OLD=NEW,...",
       "load NEW from the file's OLD; if both end in /, all names below; / "
       "alone is the root"},
      {"allow-inexact", CLI_FLAG, &flags->inexact, NULL,
       "let --resume continue in spite of differences, such as other data, "
       "--replicas or --batch-size, with a warning"},
      {"save-every", CLI_COUNT, &asked->save_every, "SECONDS",
       "interval between checkpoints (default 60)"},
      {"save-every-steps", CLI_COUNT, &asked->save_every_steps, "N",
       "interval in steps (default: by time alone)"},
      CLI_FIND_NAN_OPTION,
      CLI_FIND_SPIKE_OPTION(flags),
      {"check-ranks", CLI_COUNT, &asked->check_ranks, "N",
       "compare the ranks' variables every N steps (default: never)"},
      {"checksum", CLI_COUNT, &asked->checksum, "N",
       "add a checksum of all variables to metrics.jsonl every N steps, for "
       "diff and replay (default: never)"},
      {"gradient-norm", CLI_FLAG, &flags->gradient_norm, NULL,
       "add the norm of all gradients, after --clip-norm, to lines of "
       "metrics.jsonl; takes memory of as many weights"},
      {"attest", CLI_FLAG, &flags->attest, NULL,
       "add a chain of hashes of data, checkpoints and metrics, chain.jsonl, "
       "for 'lockstep verify'; --resume goes on with it"},
      {"keep", CLI_COUNT_OR_ZERO, &asked->keep, "N",
       "number of newest checkpoints to keep (default 5; 0: all)"},
      {"keep-best", CLI_TEXT, &asked->keep_best, "METRIC",
       "also keep the best one by loss, accuracy, test_loss or test_accuracy; "
       "of regression by mae or test_mae, too"},
      {"keep-every-hours", CLI_REAL, &asked->keep_every_hours, "X",
       "also keep one per this many hours"},
      {"grace", CLI_COUNT_OR_ZERO, &flags->grace, "SECONDS",
       "time to end and save the run after a signal (default 30; 0: no limit)"},
      {"events", CLI_MAYBE, &flags->events, "[DIR]",
       "write event files for TensorBoard (default: to the run folder's "
       "events/): metrics, weights and the graph of a step; --resume continues "
       "them"},
      CLI_TRACE_OPTION(&flags->trace),
      {"quiet", CLI_FLAG, &flags->quiet, NULL, "show no progress"},
  };
  return append_options(syntax, options, sizeof(options) / sizeof(*options),
                        out_options);
}

// Returns a command's words with the flags of train before its own.
static cli_syntax add_options(train_flags *flags, const cli_syntax *own,
                              cli_option *out_options) {
  cli_syntax syntax = *own;
  syntax.num_options = list_options(flags, own, out_options);
  syntax.options = out_options;
  return syntax;
}

int cli_with_train_flags(const cli_train_words *words, int argc, char **argv) {
  const train_flags defaults = {
      .asked = {.seed = -1, .keep = -1}, .grace = 30, .steps = -1};
  train_flags flags = defaults;
  cli_option options[MOST_OPTIONS];
  cli_syntax own = words->syntax, syntax;
  CLI_OWN_MEMORY(char, texts) = NULL;
  if (own.operand_form != NULL) own.operand = &flags.asked.model;
  syntax = add_options(&flags, &own, options);
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (words->find != NULL) {
    if (!words->find(flags.asked.model, &own, words->user)) return CLI_USAGE;
    flags = defaults;
    syntax = add_options(&flags, &own, options);
    CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  }
  const int code =
      cli_train_read_config(&syntax, argc, argv, &defaults, &flags, &texts);
  return code != CLI_OK ? code : words->run(&syntax, &flags, words->user);
}
