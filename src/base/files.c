// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include "base/memory/own.h"

static ls_status no_parts(const char *path) {
  return ls_unimplemented("the runtime's file system does not read '%s' in "
                          "parts: its open, read_at, close or list is NULL",
                          path);
}

static ls_status files_make(ls_allocator *allocator, const char *path,
                            ls_file **out_file) {
  const size_t size = strlen(path) + 1;
  ls_file *file = ls_allocate_zeroed(allocator, 1, sizeof(*file) + size);
  if (file == NULL) return ls_out_of_memory();
  file->allocator = allocator;
  file->path = memcpy(file + 1, path, size);
  *out_file = file;
  return ls_ok();
}

ls_status ls_file_open(ls_runtime *runtime, const char *path,
                       ls_file **out_file) {
  return ls_file_open_in(NULL, runtime, path, out_file);
}

ls_status ls_file_open_in(ls_file_pool *pool, ls_runtime *runtime,
                          const char *path, ls_file **out_file) {
  *out_file = NULL;
  const ls_file_system *files = ls_runtime_files(runtime);
  if (files->open == NULL || files->read_at == NULL || files->close == NULL)
    return no_parts(path);
  ls_file *file = NULL;
  LS_RETURN_IF_ERROR(files_make(ls_runtime_allocator(runtime), path, &file));
  file->files = *files;
  ls_file_info info = {0};
  const ls_status status = files->open(files->user, path, &file->handle, &info);
  if (!ls_status_is_ok(status)) {
    ls_release(file->allocator, file);
    return status;
  }
  file->size = info.size;
  file->modified = info.modified;
  if (pool != NULL) ls_file_pool_add(pool, file);
  *out_file = file;
  return ls_ok();
}

ls_status ls_file_open_bytes(ls_allocator *allocator, const char *name,
                             const void *data, size_t size,
                             ls_file **out_file) {
  *out_file = NULL;
  LS_RETURN_IF_ERROR(files_make(allocator, name, out_file));
  (*out_file)->bytes = data != NULL ? data : "";
  (*out_file)->size = (int64_t)size;
  return ls_ok();
}

void ls_file_close(ls_file *file) {
  if (file == NULL) return;
  if (file->pool != NULL)
    ls_file_pool_forget(file);
  else if (file->bytes == NULL)
    file->files.close(file->files.user, file->handle);
  ls_release(file->allocator, file);
}

// Reads up to `size` bytes from the system.
static ls_status read_some(const ls_file *file, int64_t offset, void *data,
                           size_t size, size_t *got) {
  // Casts const away: readers do not see the pool's bookkeeping.
  ls_file *pooled = (ls_file *)(uintptr_t)file;
  if (file->pool != NULL) LS_RETURN_IF_ERROR(ls_file_pool_hold(pooled));
  const ls_status status = file->files.read_at(file->files.user, file->handle,
                                               offset, data, size, got);
  if (file->pool != NULL) ls_file_pool_drop(pooled);
  return status;
}

ls_status ls_file_read(const ls_file *file, int64_t offset, void *data,
                       size_t size) {
  size_t got = 0;
  if (offset < 0)
    return ls_invalid_argument("'%s' has no byte %lld", file->path,
                               (long long)offset);
  if (file->bytes != NULL) {
    if (offset < file->size) {
      const size_t left = (size_t)(file->size - offset);
      got = size < left ? size : left;
      if (got > 0) memcpy(data, file->bytes + offset, got);
    }
  } else {
    LS_RETURN_IF_ERROR(read_some(file, offset, data, size, &got));
  }
  if (got == size) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' ends at byte %lld%s, where %zu bytes from byte %lld "
                   "on were to be read; it had %lld bytes when it was opened",
                   file->path, (long long)(offset + (int64_t)got),
                   got > 0 || offset == 0 ? "" : " or before", size,
                   (long long)offset, (long long)file->size);
}

ls_status ls_folder_check_own(ls_runtime *runtime, const char *path) {
  const ls_file_system *files = ls_runtime_files(runtime);
  bool is_link = false;
  if (files->is_link != NULL)
    LS_RETURN_IF_ERROR(files->is_link(files->user, path, &is_link));
  if (!is_link) return ls_ok();
  return ls_invalid_argument(
      "cannot write to '%s': it is a link, which may lead to anybody's folder; "
      "remove it, or put a folder in its place",
      path);
}

ls_status ls_folder_make_own(ls_runtime *runtime, const char *path) {
  const ls_file_system *files = ls_runtime_files(runtime);
  LS_RETURN_IF_ERROR(ls_folder_check_own(runtime, path));
  return files->make_directories(files->user, path);
}

// A link, or an entry that may not be removed, keeps what it leads to.
static ls_status remove_entry(const ls_file_system *files, const char *folder,
                              const ls_file_entry *entry, int depth) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_MEMORY(allocator, ls_file_entry, entries) = NULL;
  LS_OWN(ls_text, path) = {.allocator = allocator};
  size_t count = 0;
  ls_text_append_format(&path, "%s/%s", folder, entry->name);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  const char *name = ls_text_data(&path);
  bool is_link = false;
  const ls_status status = files->remove(files->user, name);
  if (ls_status_is_ok(status) || !entry->is_folder || depth == 0 ||
      ls_status_code(status) == LS_PERMISSION_DENIED)
    return status;
  const ls_status looked = files->is_link != NULL
                               ? files->is_link(files->user, name, &is_link)
                               : ls_ok();
  if (is_link || !ls_status_is_ok(looked))
    return ls_status_join(status, looked);
  ls_status_free(status);
  LS_RETURN_IF_ERROR(
      files->list(files->user, name, allocator, &entries, &count));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(remove_entry(files, name, &entries[i], depth - 1));
  return files->remove(files->user, name);
}

ls_status ls_folder_remove_entry(const ls_file_system *files,
                                 const char *folder,
                                 const ls_file_entry *entry) {
  enum { DEPTH = 64 };
  return remove_entry(files, folder, entry, DEPTH);
}

// ---- Patterns --------------------------------------------------------------
// Returns true if a text has pattern characters.
static bool is_pattern(const char *text) {
  return strpbrk(text, "*?[") != NULL;
}

// Returns true if `c` is in the set that begins after '['; moves `*at` past its
// end. Without a closing ']' the '[' is a plain character.
static bool fits_set(const char **at, char c) {
  const char *set = *at + 1;
  const bool others = *set == '!' || *set == '^';
  const char *item = set + others;
  const char *end = *item == '\0' ? NULL : strchr(item + 1, ']');
  if (end == NULL) {
    ++*at;
    return c == '[';
  }
  bool in = false;
  while (item < end) {
    const bool range = item[1] == '-' && item + 2 < end;
    const unsigned char low = (unsigned char)item[0];
    const unsigned char high = (unsigned char)(range ? item[2] : item[0]);
    in |= (unsigned char)c >= low && (unsigned char)c <= high;
    item += range ? 3 : 1;
  }
  *at = end + 1;
  return in != others;
}

// Backtracks to the last star only: everything before it already matches.
bool ls_pattern_fits(const char *pattern, const char *name) {
  if (*name == '.' && *pattern != '.') return false;
  const char *star = NULL, *tried = NULL;
  while (*name != '\0') {
    const char *next = pattern;
    if (*pattern == '*') {
      star = ++pattern;
      tried = name;
      continue;
    }
    bool fits = false;
    if (*pattern == '[') {
      fits = fits_set(&next, *name);
    } else if (*pattern != '\0') {
      fits = *pattern == '?' || *pattern == *name;
      ++next;
    }
    if (fits) {
      pattern = next;
      ++name;
    } else if (star != NULL) {
      pattern = star;
      name = ++tried;
    } else {
      return false;
    }
  }
  while (*pattern == '*')
    ++pattern;
  return *pattern == '\0';
}

// Makes one block: `count` pointers to paths, then the paths, each `folder`
// (with its slash) and a name.
static ls_status join_paths(ls_allocator *allocator, const char *folder,
                            size_t folder_size, const ls_file_entry *entries,
                            size_t count, const char *pattern,
                            const char ***out_paths, size_t *out_count) {
  size_t fits = 0, size = 0;
  for (size_t i = 0; i < count; ++i) {
    if (entries[i].is_folder || !ls_pattern_fits(pattern, entries[i].name))
      continue;
    ++fits;
    size += folder_size + strlen(entries[i].name) + 1;
  }
  if (fits == 0) return ls_ok();
  const char **paths = ls_allocate(allocator, fits * sizeof(*paths) + size);
  if (paths == NULL) return ls_out_of_memory();
  char *at = (char *)(paths + fits);
  for (size_t i = 0; i < count; ++i) {
    if (entries[i].is_folder || !ls_pattern_fits(pattern, entries[i].name))
      continue;
    const size_t name = strlen(entries[i].name) + 1;
    paths[(*out_count)++] = at;
    memcpy(at, folder, folder_size);
    memcpy(at + folder_size, entries[i].name, name);
    at += folder_size + name;
  }
  *out_paths = paths;
  return ls_ok();
}

static ls_status match_in_folder(ls_runtime *runtime, const char *pattern,
                                 const char *last, ls_allocator *allocator,
                                 const char ***out_paths, size_t *out_count) {
  const ls_file_system *files = ls_runtime_files(runtime);
  const size_t folder_size = (size_t)(last - pattern);  // Including the slash.
  char *folder = folder_size == 0
                     ? ls_copy_text(allocator, ".", 1)
                     : ls_copy_text(allocator, pattern,
                                    folder_size > 1 ? folder_size - 1 : 1);
  if (folder == NULL) return ls_out_of_memory();
  ls_file_entry *entries = NULL;
  size_t count = 0;
  ls_status status =
      files->list(files->user, folder, allocator, &entries, &count);
  if (ls_status_is_ok(status))
    status = join_paths(allocator, pattern, folder_size, entries, count, last,
                        out_paths, out_count);
  if (ls_status_is_ok(status) && *out_count == 0)
    status = ls_not_found("no file in '%s' fits '%s'", folder, last);
  ls_release(allocator, entries);
  ls_release(allocator, folder);
  return status;
}

// Refuses a pattern in a folder's name, unless there is a folder of that name.
static ls_status check_folder(ls_runtime *runtime, const char *pattern,
                              const char *last, ls_allocator *allocator) {
  const ls_file_system *files = ls_runtime_files(runtime);
  bool is_there = false;
  if (strcspn(pattern, "*?[") >= (size_t)(last - pattern)) return ls_ok();
  LS_OWN_MEMORY(allocator, char, folder) =
      ls_copy_text(allocator, pattern, (size_t)(last - pattern) - 1);
  LS_RETURN_IF_NO_MEMORY(folder);
  LS_RETURN_IF_ERROR(files->exists(files->user, folder, &is_there));
  if (is_there) return ls_ok();
  return ls_invalid_argument("'%s' has a pattern in a folder's name; only its "
                             "last part, '%s', may be one",
                             pattern, last);
}

ls_status ls_files_match(ls_runtime *runtime, const char *pattern,
                         ls_allocator *allocator, const char ***out_paths,
                         size_t *out_count) {
  *out_paths = NULL;
  *out_count = 0;
  const ls_file_system *files = ls_runtime_files(runtime);
  const char *slash = strrchr(pattern, '/');
  const char *last = slash == NULL ? pattern : slash + 1;
  bool is_there = false;
  if (is_pattern(pattern) && files->list == NULL) return no_parts(pattern);
  LS_RETURN_IF_ERROR(check_folder(runtime, pattern, last, allocator));
  if (is_pattern(last))
    LS_RETURN_IF_ERROR(files->exists(files->user, pattern, &is_there));
  // A file of this very name is meant, and no pattern.
  if (is_pattern(last) && !is_there)
    return match_in_folder(runtime, pattern, last, allocator, out_paths,
                           out_count);
  const size_t size = strlen(pattern) + 1;
  const char **paths = ls_allocate(allocator, sizeof(*paths) + size);
  if (paths == NULL) return ls_out_of_memory();
  paths[0] = memcpy(paths + 1, pattern, size);
  *out_paths = paths;
  *out_count = 1;
  return ls_ok();
}

// ---- Names -----------------------------------------------------------------
static bool is_part_name(const char *name, size_t size) {
  return size > 0 && !(size == 1 && name[0] == '.') &&
         !(size == 2 && name[0] == '.' && name[1] == '.');
}

ls_status ls_file_name_check(const char *noun, const char *name) {
  if (name != NULL && strchr(name, '/') == NULL &&
      is_part_name(name, strlen(name)))
    return ls_ok();
  return ls_invalid_argument("%s, '%.200s', is to be a part of a path: it has "
                             "no '/', and is not empty, '.' or '..'",
                             noun, name != NULL ? name : "(NULL)");
}

ls_status ls_inner_path_check(const char *noun, const char *folder,
                              const char *path) {
  bool is_inner = path != NULL;
  for (const char *at = path; is_inner && at != NULL;) {
    const size_t size = strcspn(at, "/");
    is_inner = is_part_name(at, size);
    at = at[size] == '/' ? at + size + 1 : NULL;
  }
  if (is_inner) return ls_ok();
  return ls_invalid_argument("%s, '%.200s', must be a path inside %s, whose "
                             "parts are not empty, '.' or '..'",
                             noun, path != NULL ? path : "(NULL)", folder);
}

// ---- Writing ---------------------------------------------------------------
ls_status ls_file_writer_begin(ls_file_writer *writer, ls_runtime *runtime,
                               const char *path) {
  *writer = (ls_file_writer){.files = *ls_runtime_files(runtime)};
  const ls_file_system *files = &writer->files;
  if (files->create == NULL || files->write_at == NULL || files->finish == NULL)
    return ls_unimplemented("the runtime's file system does not write '%s' in "
                            "parts: its create, write_at or finish is NULL",
                            path);
  return files->create(files->user, path, false, &writer->handle);
}

ls_status ls_file_writer_add(ls_file_writer *writer, const void *data,
                             size_t size) {
  if (size == 0) return ls_ok();
  const ls_status status = writer->files.write_at(
      writer->files.user, writer->handle, writer->written, data, size);
  writer->written += (int64_t)size;
  writer->failed |= !ls_status_is_ok(status);
  return status;
}

ls_status ls_file_writer_end(ls_file_writer *writer, bool keep,
                             ls_status status) {
  keep = keep && !writer->failed && ls_status_is_ok(status);
  return ls_status_join(
      status, writer->files.finish(writer->files.user, writer->handle, keep));
}
