// SPDX-License-Identifier: Apache-2.0
//
// A type of models made of an ONNX file, for training and the command.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "models/classifier.h"
#include "onnx/onnx_load.h"

typedef struct onnx_type {
  ls_model_type type;
  ls_allocator *allocator;
  char *path, *name;
  bool is_image;  // The file has channels first, examples have them last.
  bool is_map;    // So have its outputs: [batch, classes, height, width].
} onnx_type;

typedef struct onnx_net {
  ls_classifier base;
  const onnx_type *type;
  ls_onnx *onnx;
  uint32_t logits;
} onnx_net;

// ---- Models ----------------------------------------------------------------
static void onnx_net_destroy(void *self) {
  onnx_net *net = self;
  if (net == NULL) return;
  ls_onnx_destroy(net->onnx);
  ls_classifier_free(&net->base);
}

static ls_status onnx_net_fill(void *self, const ls_model_options *options) {
  onnx_net *net = self;
  net->type = options->type->user;
  LS_RETURN_IF_ERROR(ls_onnx_load(net->type->path, NULL, &net->onnx));
  net->logits = ls_onnx_logits(&net->onnx->file);
  return ls_classifier_use_adam(&net->base, options);
}

static ls_status onnx_net_create(const ls_model_options *options,
                                 void **out_self) {
  return ls_classifier_create(sizeof(onnx_net), options, onnx_net_fill,
                              onnx_net_destroy, out_self);
}

static ls_nest net_logits(const onnx_net *net, ls_nest args, bool training) {
  static const int channels_first[] = {0, 3, 1, 2},
                   channels_last[] = {0, 2, 3, 1};
  // The file has its own dtype, to which examples without a mean go directly.
  ls_tensor x = net->base.mean == NULL
                    ? ls_nest_tensor(args, 0)
                    : ls_classifier_examples(&net->base, args);
  ls_tensor logits = ls_failed_tensor();
  if (net->type->is_image) x = ls_transpose(x, channels_first);
  const ls_status status =
      ls_onnx_make(net->onnx, ls_leaf(x), training, &net->logits, 1, &logits);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_leaf(net->type->is_map ? ls_transpose(logits, channels_last)
                                   : logits);
}

static ls_nest onnx_net_train_step(ls_nest args, void *self) {
  const onnx_net *net = self;
  const ls_nest logits = net_logits(net, args, true);
  if (ls_nest_is_failed(logits)) return logits;
  return ls_classifier_step(&net->base, ls_nest_tensor(logits, 0), args);
}

static ls_nest onnx_net_logits(ls_nest args, void *self) {
  return net_logits(self, args, false);
}

static size_t onnx_net_variables(void *self, ls_variable **variables,
                                 size_t capacity) {
  return ls_onnx_variables(((onnx_net *)self)->onnx, variables, capacity);
}

// ---- Types -----------------------------------------------------------------
static ls_status refuse_port(const ls_onnx_file *file, const char *noun,
                             const ls_onnx_port *port, const char *wanted) {
  return ls_unimplemented(
      "'%s' as a model: %s '%s' is %s, but must be %s", file->path, noun,
      port->name, LS_SHAPE_TEXT(port->type.dtype, port->type.shape), wanted);
}

// Drops the batch, and moves channels of images to the end.
static ls_status read_example(const ls_onnx_file *file, onnx_type *out) {
  ls_model_type *type = &out->type;
  if (file->num_inputs != 1)
    return ls_unimplemented(
        "'%s' as a model: it has %zu inputs, not one%s", file->path,
        file->num_inputs,
        file->types == NULL ? ""
                            : "; values of weights that are arguments are in a "
                              "file beside it, such as .npz");
  const ls_onnx_port *port = &file->inputs[0];
  const ls_shape shape = port->type.shape;
  type->example_dtype =
      ls_dtype_is_integer(port->type.dtype) ? LS_DTYPE_I32 : LS_DTYPE_F32;
  type->example_shape.rank = shape.rank - 1;
  for (int32_t i = 1; i < shape.rank; ++i)
    type->example_shape.dim[i - 1] = shape.dim[i];
  if (shape.rank < 1 || !ls_shape_is_known(type->example_shape))
    return refuse_port(file, "input", port,
                       "[batch, ...] with all other sizes known");
  const int64_t *dim = shape.dim;
  out->is_image = shape.rank == 4 && (dim[1] == 1 || dim[1] == 3) &&
                  dim[3] != 1 && dim[3] != 3 &&
                  ls_dtype_is_float(port->type.dtype);
  if (out->is_image) type->example_shape = LS_SHAPE(dim[2], dim[3], dim[1]);
  return ls_ok();
}

static ls_status read_labels(const ls_onnx_file *file, onnx_type *out) {
  const ls_onnx_port *port = &file->outputs[0];
  const int64_t *dim = port->type.shape.dim;
  ls_model_type *type = &out->type;
  out->is_map = out->is_image && port->type.shape.rank == 4;
  const ls_shape shape =
      out->is_map ? LS_SHAPE(dim[0], dim[2], dim[3], dim[1]) : port->type.shape;
  type->num_classes = shape.rank < 2 ? 0 : shape.dim[shape.rank - 1];
  type->label_shape.rank = shape.rank - 2;
  for (int32_t i = 1; i + 1 < shape.rank; ++i)
    type->label_shape.dim[i - 1] = shape.dim[i];
  if (out->is_map) type->task = &ls_task_pixels;
  if (shape.rank < 2 || !ls_dtype_is_float(port->type.dtype) ||
      type->num_classes < 1 || !ls_shape_is_known(type->label_shape))
    return refuse_port(file, "output", port,
                       "floats [batch, ..., classes] of known sizes");
  return ls_ok();
}

static ls_status onnx_type_fill(const char *path, onnx_type *self) {
  LS_OWN(ls_onnx_file, file) = {0};
  LS_RETURN_IF_ERROR(ls_onnx_file_open(ls_runtime_current(), path, &file));
  LS_RETURN_IF_ERROR(read_example(&file, self));
  LS_RETURN_IF_ERROR(read_labels(&file, self));
  const char *slash = strrchr(path, '/');
  const char *base = slash != NULL ? slash + 1 : path;
  const char *dot = strrchr(base, '.');
  const size_t size =
      dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base);
  self->path = ls_copy_text(self->allocator, path, strlen(path));
  self->name = ls_copy_text(self->allocator, base, size);
  LS_RETURN_IF_NO_MEMORY(self->path);
  LS_RETURN_IF_NO_MEMORY(self->name);
  self->type.name = self->name;
  self->type.description = self->path;
  return ls_ok();
}

void ls_onnx_type_destroy(ls_model_type *type) {
  onnx_type *self = (onnx_type *)type;
  if (self == NULL) return;
  ls_release(self->allocator, self->path);
  ls_release(self->allocator, self->name);
  ls_release(self->allocator, self);
}
static void release_type(onnx_type *self) { ls_onnx_type_destroy(&self->type); }
LS_OWNED_POINTER(onnx_type, release_type)

ls_status ls_onnx_type_create(const char *path, ls_model_type **out_type) {
  LS_REQUIRE_OUT(out_type, path);
  LS_OWN_NEW_OR_RETURN(ls_current_allocator(), onnx_type, self);
  self->allocator = ls_current_allocator();
  self->type = (ls_model_type){.batch_size = 32,
                               .epochs = 1,
                               .learning_rate = 1e-3,
                               .create = onnx_net_create,
                               .destroy = onnx_net_destroy,
                               .train_step = onnx_net_train_step,
                               .logits = onnx_net_logits,
                               .variables = onnx_net_variables,
                               .optimizer = ls_classifier_optimizer,
                               .any_task = true,
                               .user = self};
  LS_RETURN_IF_ERROR(onnx_type_fill(path, self));
  *out_type = &ls_give(&self)->type;
  return ls_ok();
}
