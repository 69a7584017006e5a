// SPDX-License-Identifier: Apache-2.0
//
// Calls of functions: with arguments as a user gives them, and of one trace
// alone.
#include "base/memory/own.h"
#include "base/require.h"
#include "runtime/function.h"

bool ls_arguments_are_bound(const ls_parameters *parameters, ls_nest args,
                            ls_nest named) {
  if (ls_nest_count(named) != 0 || named.kind == LS_KIND_FAILED) return false;
  if (parameters == NULL) return true;
  return !parameters->variadic && !parameters->any_names &&
         args.kind == LS_KIND_TUPLE && ls_nest_count(args) == parameters->count;
}

static ls_status runtime_call(ls_function *function, ls_nest args,
                              ls_nest named, ls_nest *results) {
  static const ls_tracer alone;
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  LS_RETURN_IF_ERROR(ls_nest_status(named));
  const ls_function_options *options = ls_function_options_of(function);
  if (ls_arguments_are_bound(options->parameters, args, named))
    return ls_function_call_by(function, &alone, args, results);
  LS_OWN(ls_nest, bound) = ls_none();
  LS_RETURN_IF_ERROR(ls_parameters_bind(options->parameters, options->name,
                                        args, named, &bound));
  return ls_function_call_by(function, &alone, bound, results);
}

ls_status ls_function_call(ls_function *function, ls_nest args,
                           ls_nest *results) {
  LS_REQUIRE(function);
  LS_REQUIRE(results);
  return runtime_call(function, args, ls_none(), results);
}

ls_status ls_function_call_named(ls_function *function, ls_nest args,
                                 ls_nest named, ls_nest *results) {
  LS_REQUIRE(function);
  LS_REQUIRE(results);
  return runtime_call(function, args, named, results);
}
