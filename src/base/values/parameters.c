// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parameters.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"

// The result of binding: an item for each parameter, then the items without a
// parameter.
typedef struct binding {
  const ls_parameters *parameters;
  const char *what;
  ls_nest args, named;
  ls_allocator *allocator;
  ls_nest *items;     // Lent; empty for a parameter without argument.
  ls_nest *rest;      // Lent items of names that are not parameters,
  const char **keys;  // and the names of `rest`.
  size_t num_rest;
} binding;

// ---- Refusals --------------------------------------------------------------
// Writes the parameters as "x, y, *more, **names".
static void write_taken(const ls_parameters *p, ls_text *text) {
  const char *comma = "";
  for (size_t i = 0; i < p->count; ++i, comma = ", ") {
    ls_text_append_format(text, "%s%s", comma, p->names[i]);
    if (i + 1 == p->num_positional_only) ls_text_append(text, ", /");
  }
  if (p->variadic) {
    ls_text_append_format(text, "%s*", comma);
    comma = ", ";
  }
  if (p->any_names) ls_text_append_format(text, "%s**", comma);
}

static ls_status parameters_refuse(const binding *b, const char *why,
                                   const char *name) {
  ls_text text = {.allocator = b->allocator};
  write_taken(b->parameters, &text);
  ls_status status = ls_text_status(&text);
  if (ls_status_is_ok(status))
    status = ls_invalid_argument("%s takes (%s): '%s' %s", b->what,
                                 ls_text_data(&text), name, why);
  ls_text_deinit(&text);
  return status;
}

static ls_status too_many(const binding *b) {
  return ls_invalid_argument(
      "too many positional arguments for %s: it takes %zu, got %zu", b->what,
      b->parameters->count, ls_nest_count(b->args));
}

// ---- Binding ---------------------------------------------------------------
// Returns the index of the parameter of that name, or the number of parameters.
static size_t parameter_of(const ls_parameters *p, const char *name) {
  size_t i = p->num_positional_only;
  while (i < p->count && strcmp(p->names[i], name) != 0)
    ++i;
  return i < p->count ? i : p->count;
}

static ls_status bind_named(binding *b, bool *given) {
  const ls_parameters *p = b->parameters;
  for (size_t i = 0; i < ls_nest_count(b->named); ++i) {
    const char *name = ls_nest_key(b->named, i);
    const size_t at = parameter_of(p, name);
    if (at < p->count && given[at])
      return parameters_refuse(b, "is given by position and by name", name);
    if (at < p->count) {
      b->items[at] = ls_nest_item(b->named, i);
      given[at] = true;
    } else if (p->any_names) {
      b->rest[b->num_rest] = ls_nest_item(b->named, i);
      b->keys[b->num_rest++] = name;
    } else {
      return parameters_refuse(b, "is not the name of a parameter", name);
    }
  }
  return ls_ok();
}

static ls_status bind_all(binding *b, bool *given) {
  const ls_parameters *p = b->parameters;
  const size_t positional = ls_nest_count(b->args);
  if (positional > p->count && !p->variadic) return too_many(b);
  for (size_t i = 0; i < positional && i < p->count; ++i) {
    b->items[i] = ls_nest_item(b->args, i);
    given[i] = true;
  }
  LS_RETURN_IF_ERROR(bind_named(b, given));
  const size_t needed =
      p->num_optional < p->count ? p->count - p->num_optional : 0;
  for (size_t i = 0; i < needed; ++i)
    if (!given[i]) return parameters_refuse(b, "is not given", p->names[i]);
  return ls_ok();
}

// Returns the bound items as one tuple.
static ls_nest pack(const binding *b) {
  const ls_parameters *p = b->parameters;
  size_t count = p->count;
  if (p->variadic) {
    const size_t given = ls_nest_count(b->args);
    const size_t extra = given > p->count ? given - p->count : 0;
    LS_OWN_ARRAY(b->allocator, ls_nest, items, extra + 1);
    if (items == NULL) return ls_fail(ls_out_of_memory());
    for (size_t i = 0; i < extra; ++i)
      items[i] = ls_nest_retain(ls_nest_item(b->args, p->count + i));
    b->items[count++] = ls_nest_sequence(LS_KIND_LIST, items, extra);
  }
  if (p->any_names) {
    for (size_t i = 0; i < b->num_rest; ++i)
      b->rest[i] = ls_nest_retain(b->rest[i]);
    b->items[count++] = ls_nest_dict("", b->keys, b->rest, b->num_rest);
  }
  for (size_t i = 0; i < p->count; ++i)
    b->items[i] = ls_nest_retain(b->items[i]);
  return ls_nest_sequence(LS_KIND_TUPLE, b->items, count);
}

static ls_status bind_declared(binding *b, ls_nest *out_bound) {
  const size_t count = b->parameters->count;
  const size_t named = ls_nest_count(b->named);
  LS_OWN_ARRAY_OR_RETURN(b->allocator, ls_nest, items, count + 2);
  LS_OWN_ARRAY_OR_RETURN(b->allocator, ls_nest, rest, named + 1);
  LS_OWN_ARRAY_OR_RETURN(b->allocator, const char *, keys, named + 1);
  LS_OWN_ARRAY_OR_RETURN(b->allocator, bool, given, count + 1);
  b->items = items;
  b->rest = rest;
  b->keys = keys;
  LS_RETURN_IF_ERROR(bind_all(b, given));
  *out_bound = pack(b);
  return ls_nest_status(*out_bound);
}

// Binds without declared parameters: the arguments as they are, then the named
// ones.
static ls_status bind_plain(const binding *b, ls_nest *out_bound) {
  const size_t count = ls_nest_count(b->args);
  if (ls_nest_count(b->named) == 0) {
    *out_bound = ls_nest_retain(b->args);
    return ls_ok();
  }
  LS_OWN_ARRAY_OR_RETURN(b->allocator, ls_nest, items, count + 1);
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_retain(ls_nest_item(b->args, i));
  items[count] = ls_nest_retain(b->named);
  *out_bound = ls_nest_sequence(LS_KIND_TUPLE, items, count + 1);
  return ls_nest_status(*out_bound);
}

static ls_status check_kinds(const binding *b) {
  LS_RETURN_IF_ERROR(ls_nest_status(b->args));
  LS_RETURN_IF_ERROR(ls_nest_status(b->named));
  const ls_kind args = b->args.kind, named = b->named.kind;
  if (args != LS_KIND_NONE && args != LS_KIND_LIST && args != LS_KIND_TUPLE)
    return ls_invalid_argument(
        "the arguments of %s by position are a list or a tuple", b->what);
  if (named != LS_KIND_NONE && named != LS_KIND_DICT)
    return ls_invalid_argument("the arguments of %s by name are a dict",
                               b->what);
  return ls_ok();
}

ls_status ls_parameters_bind(const ls_parameters *parameters, const char *what,
                             ls_nest args, ls_nest named, ls_nest *out_bound) {
  LS_REQUIRE_OUT(out_bound, what);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  binding b = {.parameters = parameters,
               .what = what,
               .args = args,
               .named = named,
               .allocator = ls_runtime_allocator(runtime)};
  LS_RETURN_IF_ERROR(check_kinds(&b));
  return parameters == NULL ? bind_plain(&b, out_bound)
                            : bind_declared(&b, out_bound);
}
