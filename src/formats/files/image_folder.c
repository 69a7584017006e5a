// SPDX-License-Identifier: Apache-2.0
// Image folders: images in one folder per class. Keeps only the files' names.
#include <inttypes.h>
#include <strings.h>

#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/values/numbers.h"
#include "data/dataset.h"
#include "formats/images/image.h"
#include "io/crc32c.h"
#include "lockstep/element_spec.h"
#include "lockstep/files.h"

typedef struct image_class {
  char *name;
  int64_t first;  // First element of the class; the next class follows.
} image_class;

typedef struct image_folder {
  ls_dataset base;
  ls_image_folder_options options;
  ls_file_system files;  // The file system of the maker's runtime.
  char *folder;
  image_class *classes;
  size_t num_classes, classes_capacity;
  ls_text names;   // All file names, zero-terminated.
  size_t *starts;  // Start of each element's file name in `names`.
  size_t starts_capacity;
  size_t num_inner;  // Folders in folders of classes, which are not read.
} image_folder;

static void image_folder_destroy(ls_dataset *dataset) {
  image_folder *self = (image_folder *)dataset;
  for (size_t i = 0; i < self->num_classes; ++i)
    ls_release(dataset->allocator, self->classes[i].name);
  ls_release(dataset->allocator, self->classes);
  ls_release(dataset->allocator, self->starts);
  ls_release(dataset->allocator, self->folder);
  if (self->names.allocator != NULL) ls_text_deinit(&self->names);
}

// Names classes and files, not the folder, so that the folder may move.
static void image_folder_describe(const ls_dataset *dataset, ls_text *text) {
  const image_folder *self = (const image_folder *)dataset;
  uint32_t sum = ls_crc32c(0, ls_text_data(&self->names), self->names.size);
  for (size_t i = 0; i < self->num_classes; ++i) {
    const image_class *entry = &self->classes[i];
    sum = ls_crc32c(sum, entry->name, strlen(entry->name) + 1);
    sum = ls_crc32c(sum, &entry->first, sizeof(entry->first));
  }
  ls_text_append_format(text, "%lld images of %zu classes, names %08x, ",
                        (long long)dataset->size, self->num_classes,
                        (unsigned)sum);
  if (dataset->num_leaves > 0)
    ls_text_append(text, LS_SHAPE_TEXT(dataset->leaves[0].type.dtype,
                                       dataset->leaves[0].type.shape));
  if (self->options.cut) ls_text_append(text, ", cut");
  if (self->options.allow_damaged) ls_text_append(text, ", damaged");
}

// ---- One image -------------------------------------------------------------
static int64_t label_of(const image_folder *self, int64_t index) {
  return (int64_t)ls_count_up_to(&self->classes->first, sizeof(*self->classes),
                                 self->num_classes, index) -
         1;
}

// Reads the file of an element. Path and bytes are in the fetch's room: large
// blocks freed after each image would return to the system and come back page
// by page.
static ls_status image_folder_read_file(const image_folder *self,
                                        ls_fetch *fetch, int64_t index,
                                        const char **out_path, char **out_bytes,
                                        size_t *out_size) {
  const char *class_name = self->classes[label_of(self, index)].name;
  const char *name = self->names.data + self->starts[index];
  const size_t room =
      strlen(self->folder) + strlen(class_name) + strlen(name) + sizeof("//");
  char *path = ls_fetch_room(fetch, room);
  if (path == NULL) return ls_out_of_memory();
  ls_format(path, room, "%s/%s/%s", self->folder, class_name, name);
  *out_path = path;
  return self->files.read(self->files.user, path, SIZE_MAX, &fetch->stack,
                          out_bytes, out_size);
}

// Crops to the largest part with the proportions of `to`.
static void cut_to(const ls_pixels *to, ls_pixels *from) {
  int64_t height = from->height, width = from->width;
  if (width * to->height > height * to->width)
    width = (height * to->width + to->height / 2) / to->height;
  else
    height = (width * to->height + to->width / 2) / to->width;
  if (width < 1) width = 1;
  if (height < 1) height = 1;
  if (width > from->width) width = from->width;
  if (height > from->height) height = from->height;
  from->data = (char *)from->data +
               (size_t)((from->height - height) / 2) * from->stride +
               (size_t)((from->width - width) / 2 * from->channels);
  from->height = height;
  from->width = width;
}

// Decodes into pixels of a given size.
static ls_status decode_to_size(const image_folder *self, ls_fetch *fetch,
                                const ls_image_file *file,
                                const ls_image_header *header,
                                const ls_pixels *to) {
  ls_pixels from = *to;
  from.height = header->height;
  from.width = header->width;
  from.stride = (size_t)(from.width * from.channels);
  const bool fits = from.height == to->height && from.width == to->width;
  from.data =
      fits ? to->data : ls_fetch_room(fetch, (size_t)from.height * from.stride);
  if (from.data == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_image_decode(fetch->allocator, file, &from));
  if (fits) return ls_ok();
  if (self->options.cut) cut_to(to, &from);
  return ls_pixels_resize(fetch->allocator, &from, true, to);
}

// Reads the file of an element and its header.
static ls_status open_image(const image_folder *self, ls_fetch *fetch,
                            int64_t index, ls_image_file *file,
                            ls_image_header *header) {
  const char *path = NULL;
  char *bytes = NULL;
  size_t size = 0;
  *file = (ls_image_file){0};
  LS_RETURN_IF_ERROR(
      image_folder_read_file(self, fetch, index, &path, &bytes, &size));
  const ls_image_options options = {.most_pixels = self->options.most_pixels,
                                    .allow_damaged =
                                        self->options.allow_damaged,
                                    .name = path};
  const ls_status status =
      ls_image_open("ls_dataset_image_folder", bytes, size, &options, file);
  file->bytes = (const unsigned char *)bytes;
  return ls_status_is_ok(status) ? ls_image_parse(file, header) : status;
}

static ls_pixels image_pixels_of(const image_folder *self, int64_t height,
                                 int64_t width, void *data) {
  const int64_t channels = self->options.channels;
  return (ls_pixels){.data = data,
                     .stride = (size_t)(width * channels),
                     .height = height,
                     .width = width,
                     .channels = channels,
                     .dtype = LS_DTYPE_U8};
}

static ls_status read_image(const image_folder *self, ls_fetch *fetch,
                            int64_t index, char *row) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  ls_image_file file;
  ls_image_header header;
  LS_RETURN_IF_ERROR(open_image(self, fetch, index, &file, &header));
  const ls_pixels to =
      image_pixels_of(self, self->options.height, self->options.width, row);
  return decode_to_size(self, fetch, &file, &header, &to);
}

static ls_status read_images(const ls_dataset *dataset, ls_fetch *fetch,
                             const int64_t *indices, size_t count,
                             void *const *rows) {
  const image_folder *self = (const image_folder *)dataset;
  for (size_t k = 0; k < count; ++k) {
    ((int32_t *)rows[1])[k] = (int32_t)label_of(self, indices[k]);
    LS_RETURN_IF_ERROR(read_image(self, fetch, indices[k],
                                  (char *)rows[0] + k * dataset->row_sizes[0]));
  }
  return ls_ok();
}

// Makes `*element` an image of its file's size, with its label.
static ls_status make_element(const image_folder *self, ls_fetch *fetch,
                              int64_t index, const ls_image_file *file,
                              const ls_image_header *header, ls_nest *element) {
  const ls_type types[2] = {
      {LS_DTYPE_U8,
       LS_SHAPE(header->height, header->width, self->options.channels)},
      {LS_DTYPE_I32, LS_SCALAR}};
  LS_RETURN_IF_ERROR(ls_element_reuse(self->base.structure, types, 2, element));
  ls_array *image = ls_nest_as_array(ls_nest_item(*element, 0));
  ls_array *label = ls_nest_as_array(ls_nest_item(*element, 1));
  const ls_pixels to = image_pixels_of(self, header->height, header->width,
                                       ls_array_mutable_data(image));
  *(int32_t *)ls_array_mutable_data(label) = (int32_t)label_of(self, index);
  return decode_to_size(self, fetch, file, header, &to);
}

static ls_status get_image(const ls_dataset *dataset, ls_fetch *fetch,
                           int64_t index, ls_nest *element) {
  const image_folder *self = (const image_folder *)dataset;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  ls_image_file file;
  ls_image_header header;
  LS_RETURN_IF_ERROR(open_image(self, fetch, index, &file, &header));
  return make_element(self, fetch, index, &file, &header, element);
}

static void image_folder_name_file(const ls_dataset *dataset, int64_t index,
                                   ls_text *path) {
  const image_folder *self = (const image_folder *)dataset;
  ls_text_append_format(path, "%s/%s/%s", self->folder,
                        self->classes[label_of(self, index)].name,
                        self->names.data + self->starts[index]);
}

static const ls_dataset_class image_folder_class = {
    .name = "image_folder",
    .destroy = image_folder_destroy,
    .describe = image_folder_describe,
    .get_other = get_image,  // Images of any size.
    .read = read_images,
    .file_of = image_folder_name_file};

// ---- Making ----------------------------------------------------------------
static bool is_image_name(const char *name) {
  const char *point = strrchr(name, '.');
  return name[0] != '.' && point != NULL &&
         (strcasecmp(point, ".png") == 0 || strcasecmp(point, ".jpg") == 0 ||
          strcasecmp(point, ".jpeg") == 0);
}

static ls_status add_file(image_folder *self, const char *name) {
  const size_t index = (size_t)self->base.size;
  LS_RETURN_IF_NO_MEMORY(LS_GROW(self->base.allocator, self->starts,
                                 self->starts_capacity, index + 1));
  self->starts[index] = self->names.size;
  ls_text_append_bytes(&self->names, name, strlen(name) + 1);
  ++self->base.size;
  return ls_text_status(&self->names);
}

static ls_status add_class(image_folder *self, const char *name) {
  LS_RETURN_IF_NO_MEMORY(LS_GROW(self->base.allocator, self->classes,
                                 self->classes_capacity,
                                 self->num_classes + 1));
  image_class *made = &self->classes[self->num_classes++];
  made->first = self->base.size;
  return ls_keep_text(self->base.allocator, name, &made->name);
}

static ls_status list_class(image_folder *self, const char *name) {
  ls_allocator *allocator = self->base.allocator;
  LS_RETURN_IF_ERROR(add_class(self, name));
  LS_OWN(ls_text, path) = {.allocator = allocator};
  ls_text_append_format(&path, "%s/%s", self->folder, name);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  LS_OWN_MEMORY(allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  const int64_t before = self->base.size;
  LS_RETURN_IF_ERROR(self->files.list(self->files.user, path.data, allocator,
                                      &entries, &count));
  for (size_t i = 0; i < count; ++i) {
    self->num_inner += entries[i].is_folder && entries[i].name[0] != '.';
    if (!entries[i].is_folder && is_image_name(entries[i].name))
      LS_RETURN_IF_ERROR(add_file(self, entries[i].name));
  }
  if (self->base.size == before)
    return ls_not_found("'%s' has no images: none of its %zu files is named "
                        ".png, .jpg or .jpeg",
                        path.data, count);
  return ls_ok();
}

static ls_status list_classes(image_folder *self) {
  LS_OWN_MEMORY(self->base.allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  if (self->files.list == NULL)
    return ls_unimplemented("'%s' cannot be listed by the runtime's file "
                            "system, which has no list",
                            self->folder);
  LS_RETURN_IF_ERROR(self->files.list(self->files.user, self->folder,
                                      self->base.allocator, &entries, &count));
  for (size_t i = 0; i < count; ++i)
    if (entries[i].is_folder && entries[i].name[0] != '.')
      LS_RETURN_IF_ERROR(list_class(self, entries[i].name));
  if (self->num_classes == 0)
    return ls_not_found("'%s' has no folders; images are expected as "
                        "%s/CLASS/NAME.png or .jpg",
                        self->folder, self->folder);
  if (self->num_inner > 0)
    ls_runtime_log(ls_runtime_current(), LS_LOG_WARNING, "data",
                   "'%s': images are read from %s/CLASS; folders in those are "
                   "left out: %zu",
                   self->folder, self->folder, self->num_inner);
  return ls_ok();
}

static ls_status image_folder_check_options(const image_folder *self) {
  const ls_image_folder_options *options = &self->options;
  const bool sized = options->height != 0 || options->width != 0;
  const int64_t most = 1 << 20;
  if (sized && (options->height < 1 || options->width < 1 ||
                options->height > most || options->width > most))
    return ls_invalid_argument("an image folder of images of %" PRId64
                               " x %" PRId64 " (height x width): give both, "
                               "from 1 to %" PRId64 ", or none",
                               options->height, options->width, most);
  if (options->cut && !sized)
    return ls_invalid_argument("an image folder that is to cut images to no "
                               "size: give height and width");
  if (options->most_pixels < 0)
    return ls_invalid_argument("an image folder of at most %" PRId64
                               " pixels an image",
                               options->most_pixels);
  if (options->channels < 1 || options->channels > 4)
    return ls_invalid_argument(
        "an image folder with %d channels; 1 to 4 are possible",
        options->channels);
  return ls_ok();
}

static ls_status set_spec(image_folder *self) {
  const bool sized = self->options.height > 0;
  const ls_shape shape = LS_SHAPE(sized ? self->options.height : LS_UNKNOWN_DIM,
                                  sized ? self->options.width : LS_UNKNOWN_DIM,
                                  self->options.channels);
  return ls_dataset_set_spec(&self->base,
                             LS_TUPLE(ls_nest_spec(LS_DTYPE_U8, shape),
                                      ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)));
}

static ls_status image_folder_fill(image_folder *self, const char *folder,
                                   const ls_image_folder_options *options) {
  if (options != NULL) self->options = *options;
  if (self->options.channels == 0) self->options.channels = 3;
  ls_text_init(&self->names, self->base.allocator);
  if (folder == NULL)
    return ls_null_argument("ls_dataset_image_folder", "folder");
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  self->files = *ls_runtime_files(runtime);
  LS_RETURN_IF_ERROR(image_folder_check_options(self));
  LS_RETURN_IF_ERROR(ls_keep_text(self->base.allocator, folder, &self->folder));
  LS_RETURN_IF_ERROR(set_spec(self));
  return list_classes(self);
}

ls_dataset *ls_dataset_image_folder(const char *folder,
                                    const ls_image_folder_options *options) {
  image_folder *self =
      LS_DATASET_NEW(image_folder, &image_folder_class, NULL, 0, ls_ok());
  if (self == NULL) return NULL;
  self->base.indexed = true;
  return ls_dataset_fail(&self->base, image_folder_fill(self, folder, options));
}

// Returns NULL for another data set.
static const image_folder *as_image_folder(const ls_dataset *dataset) {
  return dataset != NULL && dataset->kind == &image_folder_class
             ? (const image_folder *)dataset
             : NULL;
}

const char *ls_image_folder_class(const ls_dataset *dataset, int64_t label) {
  const image_folder *self = as_image_folder(dataset);
  return self != NULL && label >= 0 && (size_t)label < self->num_classes
             ? self->classes[label].name
             : NULL;
}

bool ls_image_folder_file(const ls_dataset *dataset, int64_t index,
                          char *buffer, size_t size) {
  const image_folder *self = as_image_folder(dataset);
  if (self == NULL || index < 0 || index >= dataset->size) return false;
  ls_format(buffer, size, "%s/%s", self->classes[label_of(self, index)].name,
            self->names.data + self->starts[index]);
  return true;
}
