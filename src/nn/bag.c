// SPDX-License-Identifier: Apache-2.0
#include "lockstep/bag.h"

#include "base/require.h"
#include "base/runtime_internal.h"

typedef struct ls_bag_item {
  struct ls_bag_item *before;
  ls_allocator *allocator;
  void *thing;
  void (*release)(void *thing);
} ls_bag_item;

static void keep_failure(ls_bag *bag, ls_status status) {
  bag->error = ls_status_join(bag->error, status);
}

void *ls_bag_keep(ls_bag *bag, ls_status status, void *thing,
                  void (*release)(void *thing)) {
  if (ls_status_is_ok(status) && thing == NULL) return NULL;
  ls_allocator *allocator = ls_current_allocator();
  ls_bag_item *item =
      ls_status_is_ok(status) ? ls_new(allocator, ls_bag_item) : NULL;
  if (item == NULL) {
    keep_failure(bag, ls_status_is_ok(status) ? ls_out_of_memory() : status);
    if (thing != NULL) release(thing);
    return NULL;
  }
  *item = (ls_bag_item){bag->last, allocator, thing, release};
  bag->last = item;
  return thing;
}

// ---- Nests -----------------------------------------------------------------
typedef struct kept_nest {
  ls_nest nest;
  ls_allocator *allocator;
} kept_nest;

static void release_nest(void *thing) {
  kept_nest *kept = thing;
  ls_nest_release(kept->nest);
  ls_release(kept->allocator, kept);
}

ls_nest *ls_nest_in(ls_bag *bag, ls_nest nest) {
  ls_allocator *allocator = ls_current_allocator();
  const ls_status status = ls_nest_status(nest);
  kept_nest *kept =
      ls_status_is_ok(status) ? ls_new(allocator, kept_nest) : NULL;
  if (kept == NULL) {
    keep_failure(bag, ls_status_is_ok(status) ? ls_out_of_memory() : status);
    ls_nest_release(nest);
    return NULL;
  }
  *kept = (kept_nest){nest, allocator};
  return ls_bag_keep(bag, ls_ok(), kept, release_nest);
}

ls_nest ls_bag_nest(ls_bag *bag, ls_nest nest) {
  const ls_nest *kept = ls_nest_in(bag, nest);
  return kept != NULL ? *kept : ls_none();
}

// ---- End -------------------------------------------------------------------
ls_status ls_bag_take_error(ls_bag *bag) {
  LS_REQUIRE(bag);
  const ls_status error = bag->error;
  bag->error = NULL;
  return error;
}

void ls_bag_empty(ls_bag *bag) {
  while (bag->last != NULL) {
    ls_bag_item *item = bag->last;
    bag->last = item->before;
    item->release(item->thing);
    ls_release(item->allocator, item);
  }
  ls_status_free(ls_bag_take_error(bag));
}
