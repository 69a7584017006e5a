// SPDX-License-Identifier: Apache-2.0
#include "state/saver_file.h"

#include <stdio.h>
#include <string.h>

#include "base/files.h"

// ---- Patterns --------------------------------------------------------------
static bool fits_one(const char *const *patterns, size_t count,
                     const char *name) {
  for (size_t i = 0; i < count; ++i)
    if (ls_pattern_fits(patterns[i], name)) return true;
  return false;
}

bool ls_name_is_chosen(const ls_name_choice *choice, const char *name) {
  return (choice->only == NULL ||
          fits_one(choice->only, choice->num_only, name)) &&
         !fits_one(choice->except, choice->num_except, name);
}

// ---- Maps ------------------------------------------------------------------
// Returns true for a name that stands for all names below it.
static bool is_folder(const char *name) {
  const size_t size = strlen(name);
  return size > 0 && name[size - 1] == '/';
}

// Returns how many bytes of `name` one side of a map covers; `*out_fits`:
// `side` is a prefix of it.
static size_t fit(const char *side, const char *name, bool *out_fits) {
  const size_t size = strcmp(side, "/") == 0 ? 0 : strlen(side);
  *out_fits = is_folder(side) ? strncmp(side, name, size) == 0
                              : strcmp(side, name) == 0;
  return size;
}

static bool fits_map(const ls_name_choice *choice, const ls_name_map *map,
                     const char *name) {
  bool fits = false;
  (void)fit(choice->back ? map->to : map->from, name, &fits);
  return fits;
}

const char *ls_name_map_to(const ls_name_choice *choice, ls_arena *arena,
                           const char *name) {
  for (size_t i = 0; i < choice->num_maps; ++i) {
    const ls_name_map *map = &choice->maps[i];
    bool fits = false;
    const size_t size = fit(choice->back ? map->to : map->from, name, &fits);
    const char *other = choice->back ? map->from : map->to;
    if (!fits) continue;
    return strcmp(other, "/") == 0
               ? ls_arena_string(arena, name + size)
               : ls_arena_format(arena, "%s%s", other, name + size);
  }
  return name;
}

// ---- Checks ----------------------------------------------------------------
static ls_status fits_none(const ls_name_choice *choice, const char *text,
                           const char *const *names, size_t count) {
  enum { MOST_SHOWN = 4 };
  char held[240] = "";
  for (size_t i = 0; i < count && i < MOST_SHOWN; ++i) {
    const size_t at = strlen(held);
    snprintf(held + at, sizeof(held) - at, "%s'%s'", i == 0 ? ": " : ", ",
             names[i]);
  }
  return ls_invalid_argument("'%s' fits no %s of %zu%s%s", text, choice->noun,
                             count, held, count > MOST_SHOWN ? ", ..." : "");
}

static ls_status check_patterns(const ls_name_choice *choice,
                                const char *const *patterns, size_t num,
                                const char *const *names, size_t count) {
  for (size_t i = 0; i < num; ++i) {
    bool fits = false;
    if (patterns[i] == NULL)
      return ls_invalid_argument("pattern %zu of names is NULL", i);
    for (size_t k = 0; k < count && !fits; ++k)
      fits = ls_pattern_fits(patterns[i], names[k]);
    if (!fits) return fits_none(choice, patterns[i], names, count);
  }
  return ls_ok();
}

static ls_status check_map(const ls_name_choice *choice, const ls_name_map *map,
                           const char *const *names, size_t count) {
  if (map->from == NULL || map->to == NULL || map->from[0] == '\0' ||
      map->to[0] == '\0')
    return ls_invalid_argument("a map of names has an empty side");
  if (is_folder(map->from) != is_folder(map->to))
    return ls_invalid_argument("names are mapped from '%s' to '%s': both or "
                               "neither must end in '/', for all names below",
                               map->from, map->to);
  for (size_t i = 0; i < count; ++i)
    if (fits_map(choice, map, names[i])) return ls_ok();
  return fits_none(choice, choice->back ? map->to : map->from, names, count);
}

static ls_status check_lists(const ls_name_choice *choice) {
  const struct {
    const void *items;
    size_t count;
    const char *of;
  } lists[] = {
      {choice->only, choice->num_only, "names to select"},
      {choice->except, choice->num_except, "names to leave out"},
      {choice->maps, choice->num_maps, "maps of names"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(lists); ++i)
    if (lists[i].items == NULL && lists[i].count > 0)
      return ls_invalid_argument("%zu %s at NULL, in the choice of each %s",
                                 lists[i].count, lists[i].of, choice->noun);
  return ls_ok();
}

ls_status ls_name_choice_check(const ls_name_choice *choice,
                               const char *const *names, size_t count) {
  LS_RETURN_IF_ERROR(check_lists(choice));
  LS_RETURN_IF_ERROR(
      check_patterns(choice, choice->only, choice->num_only, names, count));
  LS_RETURN_IF_ERROR(
      check_patterns(choice, choice->except, choice->num_except, names, count));
  for (size_t i = 0; i < choice->num_maps; ++i)
    LS_RETURN_IF_ERROR(check_map(choice, &choice->maps[i], names, count));
  return ls_ok();
}
