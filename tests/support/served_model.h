// SPDX-License-Identifier: Apache-2.0
// A small model in a build graph, and what asks for an export of it.
#ifndef LS_TESTS_SUPPORT_SERVED_MODEL_H_
#define LS_TESTS_SUPPORT_SERVED_MODEL_H_

#include "lockstep/serving.h"
#include "support/values.h"

// y = relu(x w + b), with values of its variables.
typedef struct served_model {
  ls_graph *graph;
  ls_session *session;
  ls_variable *w, *b, *other;
  ls_tensor x, y, loss;
} served_model;

served_model served_open_model(void);
void served_close_model(served_model *m);
ls_nest served_dict_of(const char *name, ls_nest leaf);

// A folder for exports, made by `served_make_folder`.
extern char served_folder[64];
void served_make_folder(void);
void served_remove_folder(const char *path);
bool served_is_there(const char *base, const char *name);
bool served_is_empty(const char *path);

typedef struct served_request {
  ls_nest inputs, outputs;
  ls_serving_signature signature;
  ls_serving_graph graph;
  ls_serving_options options;
} served_request;

// y of x, called "features", under "serving_default". The lists point into it:
// it stays where it is.
void served_ask(served_request *r, const served_model *m);
void served_drop(served_request *r);

// Exports what `make` gives of a placeholder x f32, as ONNX or StableHLO. The
// caller releases the path.
ls_status served_export(ls_tensor (*make)(ls_tensor x), ls_shape shape,
                        bool onnx, char **out_path);
// A file of an export, with a zero at its end. The caller frees it.
char *served_read(const char *base, const char *name, size_t *out_size);

// A loaded program gives what the model's session does, bit for bit.
void served_expect_serves(ls_serving *s, const served_model *m, int64_t rows);

#endif  // LS_TESTS_SUPPORT_SERVED_MODEL_H_
