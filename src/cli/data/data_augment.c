// SPDX-License-Identifier: Apache-2.0
// Images of a training set, moved and flipped at random: by the bits that the
// seed, the epoch and the example's number give, whatever replicas and threads.
#include <stdio.h>

#include "cli/data/data.h"

typedef struct augmentation {
  int64_t crop;
  bool flip;
  bool pixels;  // Labels are classes of pixels.
} augmentation;

// Draws a whole number from -most to most, by 31 random bits.
static int64_t draw_shift(uint64_t bits, int64_t most) {
  const uint64_t span = 2 * (uint64_t)most + 1;
  return (int64_t)((bits & 0x7fffffff) * span >> 31) - most;
}

static ls_status flip_labels(ls_nest out) {
  CLI_OWN(ls_array, labels) = NULL;
  LS_RETURN_IF_ERROR(
      cli_view_image(ls_nest_as_array(ls_nest_item(out, 1)), &labels));
  return ls_flip_image(labels, labels);
}

static ls_status augment_pair(ls_nest element, ls_nest out,
                              const ls_map_call *call, void *user) {
  const augmentation *self = user;
  CLI_OWN(ls_array, from) = NULL;
  CLI_OWN(ls_array, to) = NULL;
  cli_copy_item(element, 1, ls_nest_data(out, 1));
  LS_RETURN_IF_ERROR(
      cli_view_image(ls_nest_as_array(ls_nest_item(element, 0)), &from));
  LS_RETURN_IF_ERROR(
      cli_view_image(ls_nest_as_array(ls_nest_item(out, 0)), &to));
  const ls_crop_options options = {
      .top = LS_SOME(draw_shift(call->key, self->crop)),
      .left = LS_SOME(draw_shift(call->key >> 31, self->crop))};
  LS_RETURN_IF_ERROR(ls_crop_image(from, &options, to));
  if (!self->flip || call->key >> 63 == 0) return ls_ok();
  if (self->pixels) LS_RETURN_IF_ERROR(flip_labels(out));
  return ls_flip_image(to, to);
}

// Refuses examples that are no images, and images smaller than their shift.
static ls_status check_images(const ls_train_config *config, ls_type example) {
  const char *flag = config->flip ? "flip" : "crop";
  const ls_shape *shape = &example.shape;
  const bool is_image =
      (example.dtype == LS_DTYPE_U8 || ls_dtype_is_float(example.dtype)) &&
      ls_shape_is_known(*shape) &&
      (shape->rank == 2 || (shape->rank == 3 && shape->dim[2] <= 4));
  if (!is_image)
    return ls_invalid_argument(
        "--%s is for images, of u8 or floats [height, width] or [height, "
        "width, channels]; the examples of '%s' are %s",
        flag, config->data, LS_SHAPE_TEXT(example.dtype, *shape));
  if (config->crop < shape->dim[0] && config->crop < shape->dim[1])
    return ls_ok();
  return ls_invalid_argument(
      "--crop is %lld, but the images of '%s' are %lld x %lld: nothing might "
      "be left of them",
      (long long)config->crop, config->data, (long long)shape->dim[0],
      (long long)shape->dim[1]);
}

ls_status cli_augment(const ls_train_config *config, ls_dataset **train) {
  ls_element_spec spec;
  if (config->crop == 0 && !config->flip) return ls_ok();
  LS_RETURN_IF_ERROR(ls_dataset_spec(*train, &spec));
  const ls_type example = spec.leaves[0].type, label = spec.leaves[1].type;
  LS_RETURN_IF_ERROR(check_images(config, example));
  const bool pixels = label.shape.rank == 2;
  if (pixels && config->crop > 0)
    return ls_unimplemented("--crop is not for classes of pixels, as '%s' has: "
                            "pixels from beyond the edge have none",
                            config->data);
  CLI_NEW_ARRAY_OR_RETURN(augmentation, self, 1);
  *self = (augmentation){config->crop, config->flip, pixels};
  *train = ls_dataset_map(
      *train, &(ls_map_options){
                  .name = "augment",
                  .fill = augment_pair,
                  .user = self,
                  .release = cli_release,
                  .result = LS_TUPLE(ls_nest_spec(example.dtype, example.shape),
                                     ls_nest_spec(label.dtype, label.shape))});
  return ls_dataset_status(*train);
}
