// SPDX-License-Identifier: Apache-2.0
// Sections of `lockstep report`: each writes HTML.
#ifndef LS_CLI_LOOK_REPORT_H_
#define LS_CLI_LOOK_REPORT_H_

#include "cli/look/canvas.h"

// ---- Pages -----------------------------------------------------------------
// Pieces of a self-contained HTML page: its frame with all style, escaped
// texts, charts as SVG, images. Tags are balanced as in XML.

void cli_page_begin(FILE *out, const char *title);
void cli_page_end(FILE *out);

// Writes a text from anywhere: characters of HTML are escaped, control
// characters and bytes that are not UTF-8 become U+FFFD.
void cli_page_text(FILE *out, const char *text);
void cli_page_bytes(FILE *out, const char *bytes, size_t size);
// Writes a table's cell with a text, or with a value.
void cli_page_cell(FILE *out, const char *text);
void cli_page_number(FILE *out, double value);

// Writes a panel as a figure with axes and a legend.
void cli_page_chart(FILE *out, const cli_panels *panels,
                    const cli_panel *panel);

// ---- Pictures --------------------------------------------------------------
// Small pictures of examples, for a page: files of BMP, which need no
// compression.

typedef struct cli_picture {
  unsigned char *file;  // NULL: none.
  size_t size;
  int width, height;
} cli_picture;

// Makes a picture of numbers [h, w] or [h, w, 1 to 4]: u8 from 0 to 255, other
// types from the least to the largest of them; alpha is ignored, and of a large
// image every n-th pixel is taken. Other arrays give none.
ls_status cli_picture_make(const ls_array *image, cli_picture *out);
void cli_picture_close(cli_picture *picture);  // Accepts none.
// Writes the picture as an element of HTML.
void cli_picture_write(const cli_picture *picture, FILE *out);

// ---- Classes ---------------------------------------------------------------
// An example whose class was predicted wrongly.
typedef struct cli_mistake {
  int64_t number;  // In the test set.
  int64_t row;     // In the data.
  int64_t label, predicted;
  double probability;   // Probability of the predicted class.
  cli_picture picture;  // The example, as the data have it, if it is an image.
} cli_mistake;

enum { CLI_MOST_MISTAKES = 24 };
typedef struct cli_classes_result {
  char reason[512];  // Tells why there is no result; "": there is one.
  char data[512];    // Name of the data.
  int64_t num_classes;
  // Numbers of labels: of examples, or of their pixels.
  int64_t examples, correct;
  bool pixels;
  int64_t *counts;  // [label][predicted], num_classes of each.
  char *names;      // One per line; "": unknown. NULL without a result.
  cli_mistake mistakes[CLI_MOST_MISTAKES];  // The surest first.
  size_t num_mistakes;
} cli_classes_result;

// Evaluates the model of the run in a folder on the first `limit` examples of
// its test set. `model` is a shared library that the user has named; NULL:
// none. Whatever prevents this is the result's reason. The caller closes the
// result. No runtime may be current; none is afterwards.
void cli_classify(const char *command, const char *folder, const char *model,
                  int64_t threads, int64_t limit, cli_classes_result *out);
void cli_classes_close(cli_classes_result *result);
// Counts the labels and predicted classes of a whole test set, for a model that
// has classes of whole examples, as the first function tells.
bool cli_has_classes(const ls_model_type *type);
ls_status cli_count_classes(const ls_model *model, ls_dataset *test,
                            cli_classes_result *out);
// Returns the number of examples with this label.
int64_t cli_count_label(const cli_classes_result *result, int64_t label);
CLI_OWNED_STRUCT(cli_classes_result, cli_classes_close)

// ---- Sections --------------------------------------------------------------
// Saved values in a run's folder.
typedef struct cli_saves {
  int64_t *steps;  // Steps of its checkpoints.
  double *bytes;   // Size of each.
  size_t count;
  double model_bytes;  // Size of model.safetensors; 0: there is none.
} cli_saves;

typedef struct cli_report_data {
  cli_histories runs;
  bool log;                     // Logarithmic charts.
  cli_saves *saves;             // For each run.
  cli_classes_result *classes;  // For each run.
} cli_report_data;

void cli_report_summary(FILE *out, const cli_report_data *data);
ls_status cli_report_curves(FILE *out, const cli_report_data *data);
void cli_report_metrics(FILE *out, const cli_report_data *data);
void cli_report_config(FILE *out, const cli_report_data *data);
void cli_report_times(FILE *out, const cli_report_data *data);
void cli_report_classes(FILE *out, const cli_report_data *data);

#endif  // LS_CLI_LOOK_REPORT_H_
