// SPDX-License-Identifier: Apache-2.0
// Flags: "--name value", "--name=value", "--name"; the last one given applies.
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/estimator.h"
#include "cli/ranks.h"

// ---- Near names ------------------------------------------------------------
enum { MAX_WORD = 64 };

static int options_least(int a, int b) { return a < b ? a : b; }

// Returns the number of letters to add, drop, change or swap with their
// neighbour to convert one word to the other (Damerau-Levenshtein); words have
// at most MAX_WORD letters.
static int distance(const char *a, const char *b) {
  const int m = (int)strlen(a), n = (int)strlen(b);
  int rows[MAX_WORD + 1][MAX_WORD + 1];
  for (int i = 0; i <= m; ++i) {
    for (int k = 0; k <= n; ++k) {
      if (i == 0 || k == 0) {
        rows[i][k] = i + k;
        continue;
      }
      const int changed = a[i - 1] != b[k - 1];
      rows[i][k] = options_least(rows[i - 1][k] + 1, rows[i][k - 1] + 1);
      rows[i][k] = options_least(rows[i][k], rows[i - 1][k - 1] + changed);
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        rows[i][k] = options_least(rows[i][k], rows[i - 2][k - 2] + 1);
    }
  }
  return rows[m][n];
}

const char *cli_nearest(const char *text, const char *const *names,
                        size_t count) {
  const size_t length = strlen(text);
  if (length > MAX_WORD) return NULL;
  const char *nearest = NULL;
  // The largest distance of a similar word.
  int best = length <= 4 ? 1 : 2 + (int)length / 8;
  for (size_t i = 0; i < count; ++i) {
    if (strlen(names[i]) > MAX_WORD) continue;
    // A prefix of a name counts as similar, too.
    const int d = length >= 2 && strncmp(text, names[i], length) == 0
                      ? 1
                      : distance(text, names[i]);
    if (d <= best && d < (int)length) {
      best = d - 1;
      nearest = names[i];
    }
  }
  return nearest;
}

// ---- Help ------------------------------------------------------------------
// Prints a text from a column on in lines of up to 80 characters, all but the
// first indented. Keeps the text's own ends of lines.
static void print_wrapped(const char *text, int column, int indent) {
  while (*text != '\0') {
    const int word = (int)strcspn(text + 1, " \n") + 1;
    if (*text == '\n' || (*text == ' ' && column + word > 80)) {
      printf("\n%*s", indent, "");
      column = indent;
      ++text;
      continue;
    }
    printf("%.*s", word, text);
    column += word;
    text += word;
  }
  putchar('\n');
}

static void print_help(const cli_syntax *syntax) {
  if (!cli_leads()) return;
  printf("usage: lockstep %s%s%s%s\n\n", syntax->command,
         syntax->operand_form != NULL ? " " : "",
         syntax->operand_form != NULL ? syntax->operand_form : "",
         syntax->num_options > 0 ? " [FLAG...]" : "");
  print_wrapped(syntax->about, 0, 0);
  if (syntax->description != NULL)
    print_wrapped(syntax->description, printf("\n%s: ", syntax->subject) - 1,
                  0);
  if (syntax->num_options > 0) printf("\nflags:\n");
  for (size_t i = 0; i < syntax->num_options; ++i) {
    const cli_option *option = &syntax->options[i];
    char head[64];
    snprintf(head, sizeof(head), "--%s%s%s", option->name,
             option->kind == CLI_FLAG ? "" : " ",
             option->kind == CLI_FLAG ? "" : option->form);
    print_wrapped(option->help, printf("  %-18s  ", head), 22);
  }
}

// ---- Values ----------------------------------------------------------------
// Largest count: above any sensible one, and sums of a few do not overflow.
static const long long most = INT32_MAX;

static bool is_count(const cli_option *option) {
  return option->kind == CLI_COUNT || option->kind == CLI_COUNT_OR_ZERO;
}

static bool is_real(const cli_option *option) {
  return option->kind == CLI_REAL || option->kind == CLI_REAL_OR_ZERO;
}

// Returns true unless the number is below the normal f32 numbers or above all,
// as most are used.
static bool fits_f32(double value) {
  return !(value > (double)FLT_MAX || (value > 0 && value < (double)FLT_MIN));
}

static long long least_of(const cli_option *option) {
  return option->kind == CLI_COUNT ? 1 : 0;
}

// Returns what the option expects, for messages; NULL if the value is fine.
static const char *expectation(const cli_option *option, const char *value,
                               char *buffer, size_t size) {
  if (is_count(option) && value != NULL && atof(value) > (double)most)
    snprintf(buffer, size, "a whole number up to %lld", most);
  else if (is_count(option))
    snprintf(buffer, size, "a whole number from %lld on", least_of(option));
  else if (is_real(option) && value != NULL && !fits_f32(atof(value)))
    snprintf(buffer, size, "a number from %.3g to %.3g", (double)FLT_MIN,
             (double)FLT_MAX);
  else if (option->kind == CLI_REAL)
    snprintf(buffer, size, "a number above 0");
  else if (option->kind == CLI_REAL_OR_ZERO)
    snprintf(buffer, size, "0 or a number above it");
  else
    snprintf(buffer, size, "%s", option->form);
  return buffer;
}

static bool read_count(const cli_option *option, const char *text) {
  char *end = NULL;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < least_of(option) ||
      value > most)
    return false;
  *(int64_t *)option->value = value;
  return true;
}

static bool read_real(const cli_option *option, const char *text) {
  char *end = NULL;
  const double value = strtod(text, &end);
  if (end == text || *end != '\0' || !fits_f32(value) || !(value >= 0) ||
      (value == 0 && option->kind == CLI_REAL))
    return false;
  *(double *)option->value = value;
  return true;
}

bool cli_option_set(const cli_option *option, const char *text, char *wanted,
                    size_t size) {
  expectation(option, text, wanted, size);
  if (is_count(option)) return read_count(option, text);
  if (is_real(option)) return read_real(option, text);
  *(const char **)option->value = text;
  return text[0] != '\0';
}

// ---- Parsing ---------------------------------------------------------------
const cli_option *cli_option_find(const cli_syntax *syntax, const char *name,
                                  size_t size) {
  for (size_t i = 0; i < syntax->num_options; ++i) {
    const char *known = syntax->options[i].name;
    if (strlen(known) == size && memcmp(known, name, size) == 0)
      return &syntax->options[i];
  }
  return NULL;
}

// Names of flags in other programs, and ours, maybe with a value.
static const cli_refusal other_names[] = {
    {"gpu,gpus,cuda", "device gpu"},
    {"lr", "learning-rate"},
    {"wd", "weight-decay"},
    {"bs,batch", "batch-size"},
    {"max-epochs,num-epochs,num-train-epochs", "epochs"},
    {"max-steps,num-steps", "steps"},
    {"validation-split,val-split", "split"},
    {"val,val-data,validation-data", "test"},
    {"workers,num-workers", "threads"},
    {"output-dir,log-dir,logdir,save-dir", "run-dir"},
    {"checkpoint,ckpt,ckpt-path,resume-from", "resume"},
    {"weights,pretrained,load", "warm-start"},
    {"fp16,amp,mixed-precision", "precision bf16"},
    {"early-stopping,early-stop", "stop-early"},
    {"num-classes", "outputs"},
    {"target", "label"},
    {"dataset", "data"},
    {"tensorboard", "events"},
    {"momentum", "optimizer momentum"},
    {"max-grad-norm,gradient-clip-val", "clip-norm"},
    {"gradient-accumulation-steps", "accumulate"},
    {"max-tokens,max-new-tokens", "tokens"},
    {"format", "onnx"},
    {"host", "address"},
    {"nproc,nproc-per-node,np", "ranks"}};

const char *cli_nearest_flag(const cli_syntax *syntax, const char *flag,
                             size_t size) {
  static const cli_refusals others = {
      .rows = other_names, .count = sizeof(other_names) / sizeof(*other_names)};
  const char *other = cli_refusal_find(&others, flag, size);
  if (other != NULL &&
      cli_option_find(syntax, other, strcspn(other, " ")) != NULL)
    return other;
  const size_t count = syntax->num_options;
  CLI_OWN_MEMORY(const char *, names) = cli_allocate(count * sizeof(*names));
  char name[MAX_WORD + 1] = "";
  for (size_t i = 0; names != NULL && i < count; ++i)
    names[i] = syntax->options[i].name;
  if (size <= MAX_WORD) memcpy(name, flag, size);
  return names != NULL ? cli_nearest(name, names, count) : NULL;
}

static int unknown_flag(const cli_syntax *syntax, const char *flag,
                        size_t size) {
  const char *reason = cli_refusal_find(&syntax->refused, flag, size);
  if (reason != NULL)
    return cli_misuse(syntax->command, "--%.*s is not for %s: %s", (int)size,
                      flag, syntax->refused.kind, reason);
  if (size == 5 && memcmp(flag, "model", 5) == 0 &&
      syntax->operand_form != NULL &&
      strcmp(syntax->operand_form, "MODEL") == 0)
    return cli_misuse(syntax->command,
                      "there is no flag '--model': the model stands by itself, "
                      "as in 'lockstep %s mlp'",
                      syntax->command);
  const char *nearest = cli_nearest_flag(syntax, flag, size);
  if (nearest != NULL)
    cli_refuse(syntax->command,
               "there is no flag '--%.*s'; did you mean '--%s'?", (int)size,
               flag, nearest);
  else
    cli_refuse(syntax->command,
               "there is no flag '--%.*s'; see 'lockstep %s --help'", (int)size,
               flag, syntax->command);
  return CLI_USAGE;
}

// Reads one flag at argv[*at]; moves `*at` to its last word. Returns CLI_OK or
// CLI_USAGE.
static int parse_flag(const cli_syntax *syntax, int argc, char **argv,
                      int *at) {
  const char *name = argv[*at] + 2;
  const size_t size = strcspn(name, "=");
  const cli_option *option = cli_option_find(syntax, name, size);
  if (option == NULL) return unknown_flag(syntax, name, size);
  const char *value = name[size] == '=' ? name + size + 1 : NULL;
  if (option->kind == CLI_FLAG) {
    if (value != NULL)
      return cli_misuse(syntax->command, "--%s takes no value, got '%s'",
                        option->name, value);
    *(bool *)option->value = true;
    return CLI_OK;
  }
  // A flag is never a value; a value that looks like one must follow a "=".
  if (value == NULL && *at + 1 < argc &&
      strncmp(argv[*at + 1], "--", option->kind == CLI_MAYBE ? 1 : 2) != 0)
    value = argv[++*at];
  if (value == NULL && option->kind == CLI_MAYBE) {
    *(const char **)option->value = "";
    return CLI_OK;
  }
  char wanted[64];
  if (value == NULL) {
    expectation(option, value, wanted, sizeof(wanted));
    return cli_misuse(syntax->command, "--%s needs a value: %s", option->name,
                      wanted);
  }
  if (cli_option_set(option, value, wanted, sizeof(wanted))) return CLI_OK;
  return cli_misuse(syntax->command, "--%s is '%s', expected %s", option->name,
                    value, wanted);
}

// Returns true if the words have --model.
static bool gives_model(int argc, char **argv) {
  for (int i = 0; i < argc; ++i)
    if (strcmp(argv[i], "--model") == 0 || strncmp(argv[i], "--model=", 8) == 0)
      return true;
  return false;
}

static int parse_operand(const cli_syntax *syntax, char *word, char **words,
                         bool has_model) {
  if (word[0] == '-' && word[1] != '\0')
    return cli_misuse(syntax->command,
                      "there is no flag '%s'; see 'lockstep %s --help'", word,
                      syntax->command);
  if (syntax->num_operands != NULL) {
    words[(*syntax->num_operands)++] = word;
    return CLI_OK;
  }
  if (syntax->operand_form == NULL || *syntax->operand != NULL) {
    const bool names_model = cli_option_find(syntax, "model", 5) != NULL &&
                             !has_model && strspn(word, "0123456789") == 0;
    const cli_option *data = cli_option_find(syntax, "data", 4);
    const bool names_file = data != NULL && access(word, F_OK) == 0;
    if (names_file && *(const char **)data->value == NULL)
      cli_refuse(syntax->command,
                 "unexpected argument '%s'; did you mean '--data %s'?", word,
                 word);
    else if (names_file)
      cli_refuse(syntax->command,
                 "unexpected argument '%s'; several files are one --data: "
                 "'A.png,B.png', or a pattern in quotes, 'photos/*.png'",
                 word);
    else if (syntax->operand_form == NULL && names_model)
      cli_refuse(syntax->command,
                 "unexpected argument '%s'; did you mean '--model %s'?", word,
                 word);
    else if (strcmp(syntax->command, "launch") == 0)
      cli_refuse("launch",
                 "unexpected argument '%s'; put -- before the program", word);
    else
      cli_refuse(syntax->command,
                 "unexpected argument '%s'; see 'lockstep %s --help'", word,
                 syntax->command);
    return CLI_USAGE;
  }
  *syntax->operand = word;
  return CLI_OK;
}

int cli_count_own(int argc, char **argv) {
  int own = 0;
  while (own < argc && strcmp(argv[own], "--") != 0)
    ++own;
  return own;
}

bool cli_parse(const cli_syntax *syntax, int argc, char **argv, int *out_exit) {
  *out_exit = CLI_OK;
  for (int i = 0; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      print_help(syntax);
      return false;
    }
  }
  for (int i = 0; *out_exit == CLI_OK && i < argc; ++i)
    *out_exit =
        strncmp(argv[i], "--", 2) == 0
            ? parse_flag(syntax, argc, argv, &i)
            : parse_operand(syntax, argv[i], argv, gives_model(argc, argv));
  const bool has_operand =
      syntax->num_operands != NULL
          ? *syntax->num_operands > 0
          : syntax->operand_form == NULL || *syntax->operand != NULL;
  if (*out_exit == CLI_OK && !has_operand) {
    cli_refuse(syntax->command, "%s is missing; see 'lockstep %s --help'",
               syntax->operand_form, syntax->command);
    *out_exit = CLI_USAGE;
  }
  if (*out_exit == CLI_OK && !cli_check_device(syntax->command))
    *out_exit = CLI_USAGE;
  return *out_exit == CLI_OK;
}

// ---- Refused flags ---------------------------------------------------------
// Flags that only models have, or only estimators, and the reasons.
const char *cli_refusal_find(const cli_refusals *refused, const char *name,
                             size_t size) {
  for (size_t i = 0; i < refused->count; ++i)
    for (const char *at = refused->rows[i].names; *at != '\0';
         at += strspn(at, ",")) {
      const size_t length = strcspn(at, ",");
      if (length == size && memcmp(at, name, size) == 0)
        return refused->rows[i].reason;
      at += length;
    }
  return NULL;
}

#define ROWS(table) (table), sizeof(table) / sizeof(*(table))

// ---- Models ----------------------------------------------------------------
static const char no_params[] =
    "a model has no parameters; of one of the library --learning-rate and "
    "others are flags";

static const cli_refusal models_train[] = {
    {"param", no_params},
    {"eval-every", "each epoch ends with a test; --epochs and --test-steps set "
                   "how many there are and how long they take"}};
const cli_refusals cli_train_refused_by_models = {"models", ROWS(models_train)};

static const cli_refusal models_use[] = {
    {"param", no_params},
    {"tpu", "a model is used on this machine, by --device on others; its "
            "results do not depend on how it was trained"},
    {"replicas", "one replica computes the same"},
    {"batch-size", "results do not depend on it"},
    {"steps", "all of the data are used; --data names others"},
    {"checkpoint", "name it with the run, as RUN@STEP"},
    {"name", "no event files are written"},
    {"keys", "the task says what is printed"}};
const cli_refusals cli_use_refused_by_models = {"models", ROWS(models_use)};

// ---- Estimators ------------------------------------------------------------
static const cli_refusal libraries_train[] = {
    {"find-lr,optimizer,learning-rate,schedule,warmup,weight-decay,clip-norm,"
     "accumulate,precision",
     "its model function makes the optimizer and chooses types; --param passes "
     "numbers to it"},
    {"data,test,split,features,label,task,outputs,one-hot,missing,normalize,"
     "flip,crop,epochs",
     "its input functions have the data; --param passes numbers to them"}};

const cli_refusals cli_train_refused_by_libraries = {
    "estimators of shared libraries", ROWS(libraries_train)};

static const cli_refusal estimators_use[] = {
    {"out", "masks of pixels are written by a model's run"},
    {"top,logits", "its model function has the predictions; --keys chooses "
                   "among them"},
    {"test,split,task,outputs",
     "the run's are in its estimator.json; --data names other data"}};
const cli_refusals cli_use_refused_by_estimators = {"estimators",
                                                    ROWS(estimators_use)};
