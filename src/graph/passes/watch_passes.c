// SPDX-License-Identifier: Apache-2.0
//
// Obeys the debug switches for passes: after each pass over a program's graph
// logs a line, verifies the graph, and writes a file.
#include <ctype.h>

#include "base/debug.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "graph/passes/passes.h"

static const char *name_of(const ls_graph *graph) {
  return graph->name != NULL ? graph->name : "";
}

// Prints "<folder>/<number>-<graph>-<pass>.ls", with '_' for characters unfit
// for file names.
static void print_path(ls_text *path, ls_runtime *runtime, const char *folder,
                       const ls_graph *graph, const char *pass) {
  ls_text_append_format(path, "%s/%04llu-", folder,
                        (unsigned long long)ls_debug_count_dump(runtime));
  for (const char *name = name_of(graph); *name != '\0'; ++name)
    ls_text_append_char(path, isalnum((unsigned char)*name) ? *name : '_');
  ls_text_append_format(path, "-%s.ls", pass);
}

static ls_status dump(ls_runtime *runtime, const char *folder,
                      const ls_graph *graph, const char *pass) {
  const ls_file_system *files = ls_runtime_files(runtime);
  LS_OWN(ls_text, path) = {0};
  ls_text_init(&path, ls_runtime_allocator(runtime));
  print_path(&path, runtime, folder, graph, pass);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  LS_RETURN_IF_ERROR(files->make_directories(files->user, folder));
  char *content = NULL;
  LS_RETURN_IF_ERROR(ls_graph_print(graph, &content));
  const ls_status status =
      files->write(files->user, ls_text_data(&path), content, strlen(content));
  ls_text_release(content);
  return status;
}

ls_status ls_watch_pass(ls_runtime *runtime, const ls_graph *graph,
                        const char *pass, bool is_last) {
  if (ls_debug_level(runtime, LS_DEBUG_GRAPH) >= (is_last ? 1 : 2))
    ls_runtime_log(runtime, LS_LOG_DEBUG, "graph", "'%s' after %s: %zu ops",
                   name_of(graph), pass, graph->num_nodes);
  const char *folder = ls_debug_dump_directory(runtime);
  if (folder != NULL)
    LS_RETURN_IF_ERROR(ls_status_annotate(dump(runtime, folder, graph, pass),
                                          "while writing a graph for LS_DUMP"));
  return ls_debug_verify(runtime)
             ? ls_status_annotate(ls_graph_verify(graph), "after %s", pass)
             : ls_ok();
}
