// SPDX-License-Identifier: Apache-2.0
// Pieces of a self-contained HTML page: its frame with all style, escaped
// texts, charts as SVG, images. Tags are balanced as in XML.
#ifndef LS_CLI_LOOK_PAGE_H_
#define LS_CLI_LOOK_PAGE_H_

#include "cli/look/panels.h"

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

#endif  // LS_CLI_LOOK_PAGE_H_
