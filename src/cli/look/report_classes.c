// SPDX-License-Identifier: Apache-2.0
// Sections of a report about the classes that models predict.
#include <math.h>
#include <stdio.h>

#include "cli/data/data.h"
#include "cli/look/report.h"

enum { MOST_COLUMNS = 32 };

static void write_class(FILE *out, const cli_classes_result *result,
                        int64_t number) {
  const ls_bytes name = cli_class_name(result->names, number);
  if (name.size > 0)
    cli_page_bytes(out, name.data, name.size);
  else
    fprintf(out, "%lld", (long long)number);
}

// ---- The matrix ------------------------------------------------------------
static void write_matrix_row(FILE *out, const cli_classes_result *result,
                             int64_t label) {
  const int64_t all = cli_count_label(result, label);
  const int64_t *counts = &result->counts[label * result->num_classes];
  fprintf(out, "<tr><th class=\"name\">%lld ", (long long)label);
  if (result->names[0] != '\0') write_class(out, result, label);
  fputs("</th>", out);
  for (int64_t k = 0; k < result->num_classes; ++k) {
    const double share = all > 0 ? (double)counts[k] / (double)all : 0;
    const char *kind = k == label ? "hit" : "miss";
    if (counts[k] == 0)
      fputs("<td></td>", out);
    else
      fprintf(out, "<td class=\"%s%s\" style=\"--a:%.2f\">%lld</td>", kind,
              share > 0.5 ? " strong" : "", fmin(0.08 + share, 1),
              (long long)counts[k]);
  }
  if (all > 0)
    fprintf(out, "<td>%.1f%%</td></tr>\n",
            100 * (double)counts[label] / (double)all);
  else
    fputs("<td></td></tr>\n", out);
}

static void write_matrix(FILE *out, const cli_classes_result *result) {
  fputs("<p class=\"faint\">Rows are labels, columns predicted classes.</p>\n"
        "<div class=\"wide\"><table class=\"matrix\">\n<tr><th></th>",
        out);
  for (int64_t k = 0; k < result->num_classes; ++k)
    fprintf(out, "<th>%lld</th>", (long long)k);
  fputs("<th>right</th></tr>\n", out);
  for (int64_t k = 0; k < result->num_classes; ++k)
    write_matrix_row(out, result, k);
  fputs("</table></div>\n", out);
}

// Lists the most frequent confusions of many classes.
static void write_confusions(FILE *out, const cli_classes_result *result) {
  enum { MOST = 20 };
  const int64_t size = result->num_classes * result->num_classes;
  int64_t bound = INT64_MAX, listed = 0;
  fprintf(out,
          "<div class=\"wide\"><table>\n<tr><th>label</th><th>predicted</th>"
          "<th class=\"n\">%s</th></tr>\n",
          result->pixels ? "pixels" : "examples");
  while (listed < MOST) {
    int64_t largest = 0;
    for (int64_t i = 0; i < size; ++i)
      if (i / result->num_classes != i % result->num_classes &&
          result->counts[i] < bound && result->counts[i] > largest)
        largest = result->counts[i];
    if (largest == 0) break;
    for (int64_t i = 0; i < size && listed < MOST; ++i) {
      if (i / result->num_classes == i % result->num_classes ||
          result->counts[i] != largest)
        continue;
      fputs("<tr><td class=\"long\">", out);
      write_class(out, result, i / result->num_classes);
      fputs("</td><td class=\"long\">", out);
      write_class(out, result, i % result->num_classes);
      fprintf(out, "</td><td class=\"n\">%lld</td></tr>\n", (long long)largest);
      ++listed;
    }
    bound = largest;
  }
  fputs("</table></div>\n", out);
}

// ---- Mistakes --------------------------------------------------------------
static void write_mistakes(FILE *out, const cli_classes_result *result) {
  size_t pictures = 0;
  for (size_t i = 0; i < result->num_mistakes; ++i)
    pictures += result->mistakes[i].picture.file != NULL;
  if (result->num_mistakes == 0) return;
  fputs("<h3>Mistakes that the model was surest of</h3>\n", out);
  if (pictures == 0)
    fputs("<p class=\"faint\">The examples are no images, so only their "
          "numbers are shown.</p>\n",
          out);
  fputs("<div class=\"images\">\n", out);
  for (size_t i = 0; i < result->num_mistakes; ++i) {
    const cli_mistake *mistake = &result->mistakes[i];
    fputs("<figure>", out);
    if (mistake->picture.file != NULL)
      cli_picture_write(&mistake->picture, out);
    fprintf(out, "<figcaption>%s", mistake->picture.file == NULL ? "<b>" : "");
    if (mistake->picture.file == NULL)
      fprintf(out, "row %lld</b> ", (long long)mistake->row);
    write_class(out, result, mistake->label);
    fputs(" \u2192 ", out);
    write_class(out, result, mistake->predicted);
    fprintf(out, " %.0f%%</figcaption></figure>\n", 100 * mistake->probability);
  }
  fputs("</div>\n", out);
}

// ---- The section -----------------------------------------------------------
static void write_result(FILE *out, const cli_classes_result *result) {
  if (result->reason[0] != '\0') {
    fputs("<p class=\"faint\">Not evaluated: ", out);
    cli_page_text(out, result->reason);
    fputs("</p>\n", out);
    return;
  }
  fprintf(out, "<p>%lld of %lld %s of the test set of ",
          (long long)result->correct, (long long)result->examples,
          result->pixels ? "pixels" : "examples");
  cli_page_text(out, result->data);
  fprintf(out, " are right: %.2f%%</p>\n",
          100 * (double)result->correct / (double)result->examples);
  if (result->num_classes <= MOST_COLUMNS)
    write_matrix(out, result);
  else
    write_confusions(out, result);
  write_mistakes(out, result);
}

void cli_report_classes(FILE *out, const cli_report_data *data) {
  fputs("<h2>Classes</h2>\n", out);
  for (size_t i = 0; i < data->runs.count; ++i) {
    if (data->runs.count > 1) {
      fputs("<h3>", out);
      cli_page_text(out, data->runs.items[i].folder);
      fputs("</h3>\n", out);
    }
    write_result(out, &data->classes[i]);
  }
}
