// SPDX-License-Identifier: Apache-2.0
// Owners: locals that are released on every way out of their block. The library
// has them in base/memory/own.h, which the command does not see.
//
//   CLI_OWN(ls_dataset, rows) = NULL;        // An ls_dataset *.
//   CLI_OWN_MEMORY(char, text) = cli_allocate(size);
//   ...                                      // Returns need no release.
//   *out_rows = cli_give(&rows);             // Hands over.
//
// A type that can be owned has one line, here or beside its release.
#ifndef LS_CLI_OWN_H_
#define LS_CLI_OWN_H_

#include <stdio.h>
#include <string.h>

#include "lockstep/full.h"

#define CLI_OWNED_(noun, type, release)                                        \
  typedef type cli_owned_##noun;                                               \
  __attribute__((unused)) static inline void cli_owned_##noun##_end(           \
      type *cli_owned) {                                                       \
    release;                                                                   \
  }
// Makes CLI_OWN(noun, name) an owner of a `noun *`, NULL for none.
#define CLI_OWNED_POINTER(noun, release)                                       \
  CLI_OWNED_(noun, noun *, if (*cli_owned != NULL)(void) release(*cli_owned))
// Makes CLI_OWN(noun, name) an owner of a struct `noun`, released by value or
// passed to `close` by address. Zeroed means empty.
#define CLI_OWNED_VALUE(noun, release)                                         \
  CLI_OWNED_(noun, noun, release(*cli_owned))
#define CLI_OWNED_STRUCT(noun, close) CLI_OWNED_(noun, noun, close(cli_owned))

// Declares the owner `name`; an initializer follows.
#define CLI_OWN(noun, name)                                                    \
  cli_owned_##noun name __attribute__((cleanup(cli_owned_##noun##_end), unused))

// Returns the value of the variable at `place` and empties the variable.
#define cli_give(place)                                                        \
  __extension__({                                                              \
    __typeof__(place) cli_given_from = (place);                                \
    __typeof__(*(place)) cli_given = *cli_given_from;                          \
    memset(cli_given_from, 0, sizeof(*cli_given_from));                        \
    cli_given;                                                                 \
  })
// Gives the value to `*out` and returns OK.
#define cli_hand_over(place, out)                                              \
  __extension__({                                                              \
    *(out) = cli_give(place);                                                  \
    ls_ok();                                                                   \
  })

// Allocate zeroed memory (NULL if there is none) and free it (accepts NULL).
// Any thread.
void *cli_allocate(size_t size);
void cli_release(void *memory);
// Copies a text, with a terminating zero; NULL if there is no memory.
static inline char *cli_copy_text(const char *data, size_t size) {
  char *text = (char *)cli_allocate(size + 1);
  if (text != NULL && size > 0) memcpy(text, data, size);
  return text;
}

static inline void cli_owned_memory_end(void *place) {
  void *memory = NULL;
  memcpy(&memory, place, sizeof(memory));
  cli_release(memory);
}
// Declares `Type *name`, a block of cli_allocate; an initializer follows.
#define CLI_OWN_MEMORY(Type, name)                                             \
  Type *name __attribute__((cleanup(cli_owned_memory_end), unused))
// Declares `Type *name`, `count` zeroed items; returns out-of-memory if there
// is none.
#define CLI_OWN_ARRAY_OR_RETURN(Type, name, count)                             \
  CLI_OWN_MEMORY(Type, name) = cli_allocate((count) * sizeof(Type));           \
  if (name == NULL) return ls_out_of_memory()
// Declares `Type *name`, `count` zeroed items that nobody owns yet.
#define CLI_NEW_ARRAY_OR_RETURN(Type, name, count)                             \
  Type *name = cli_allocate((count) * sizeof(Type));                           \
  if (name == NULL) return ls_out_of_memory()
// Sets `place`, such as a field, to `count` zeroed items.
#define CLI_SET_ARRAY_OR_RETURN(place, count)                                  \
  do {                                                                         \
    (place) = cli_allocate((count) * sizeof(*(place)));                        \
    if ((place) == NULL) return ls_out_of_memory();                            \
  } while (0)

CLI_OWNED_POINTER(FILE, fclose)
CLI_OWNED_POINTER(ls_array, ls_array_release)
CLI_OWNED_POINTER(ls_dataset, ls_dataset_release)
CLI_OWNED_POINTER(ls_decoder, ls_decoder_destroy)
CLI_OWNED_POINTER(ls_evaluator, ls_evaluator_destroy)
CLI_OWNED_POINTER(ls_function, ls_function_release)
CLI_OWNED_POINTER(ls_graph, ls_graph_destroy)
CLI_OWNED_POINTER(ls_hook, ls_hook_release)
CLI_OWNED_POINTER(ls_iterator, ls_iterator_release)
CLI_OWNED_POINTER(ls_optimizer, ls_optimizer_release)
CLI_OWNED_POINTER(ls_pod, ls_pod_release)
CLI_OWNED_POINTER(ls_record, ls_record_destroy)
CLI_OWNED_POINTER(ls_run_config, ls_run_config_release)
CLI_OWNED_POINTER(ls_saved_file, ls_saved_file_close)
CLI_OWNED_POINTER(ls_session, ls_session_destroy)
CLI_OWNED_POINTER(ls_strategy, ls_strategy_release)
CLI_OWNED_POINTER(ls_tpu_resolver, ls_tpu_resolver_release)
CLI_OWNED_POINTER(ls_train_config, ls_train_config_destroy)
CLI_OWNED_STRUCT(ls_bag, ls_bag_empty)
CLI_OWNED_STRUCT(ls_model, ls_model_destroy)
CLI_OWNED_VALUE(ls_nest, ls_nest_release)
CLI_OWNED_VALUE(ls_status, ls_status_free)
// CLI_OWN(text, name): a char * to be freed by ls_text_release.
CLI_OWNED_(text, char *, ls_text_release(*cli_owned))

#endif  // LS_CLI_OWN_H_
