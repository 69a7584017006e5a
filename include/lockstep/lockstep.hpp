// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Lockstep in C++17: owners for handles, exceptions for statuses, lambdas as
// callbacks, operators on tensors. Everything in it is a thin layer over
// lockstep/lockstep.h, which it includes: op makers and options are used as in
// C, and an owner converts to the pointer that C functions take.
//
//   auto hidden = lockstep::make<ls_dense_layer_create>(options);
//   auto step = lockstep::function([&](ls_nest batch) {
//     ls_tensor x = ls_nest_tensor(batch, 0);
//     return ls_leaf(ls_dense_layer_apply(hidden, x) * 2.0);
//   });
//
// An exception that leaves a callback fails the call with its text; it does not
// pass through the library's frames. A callback of a replica runs on a stack of
// 256 KiB, and must not make a merge call inside a catch block: the fiber of
// another replica would go on while the exception is handled.
//
// Threads: as the headers of C state for each object.
#ifndef LOCKSTEP_LOCKSTEP_HPP_
#define LOCKSTEP_LOCKSTEP_HPP_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/lockstep.h"
#include "lockstep/mpi.h"

namespace lockstep {

// ---- Errors ----------------------------------------------------------------
// A status that is not OK.
class error : public std::runtime_error {
public:
  error(ls_code code, const std::string &message)
      : std::runtime_error(std::string(ls_code_name(code)) + ": " + message),
        code_(code), message_(message) {}
  ls_code code() const noexcept { return code_; }
  const std::string &message() const noexcept { return message_; }

private:
  ls_code code_;
  std::string message_;  // Without the code.
};

// Throws unless the status, taken over, is OK.
inline void check(ls_status status) {
  if (status == nullptr) return;
  const ls_code code = ls_status_code(status);
  const std::string message = ls_status_message(status);
  ls_status_free(status);
  throw error(code, message);
}

// Returns what `body` returns; if an exception leaves it, what `refuse` makes
// of that as a status.
template <typename Body, typename Refuse>
auto guard(Body &&body, Refuse &&refuse) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const error &failure) {
    const ls_code code = failure.code() == LS_OK ? LS_UNKNOWN : failure.code();
    return refuse(LS_STATUS(code, "%s", failure.message().c_str()));
  } catch (const std::exception &failure) {
    return refuse(LS_STATUS(LS_UNKNOWN, "%s", failure.what()));
  } catch (...) {
    return refuse(LS_STATUS(LS_UNKNOWN, "an exception"));
  }
}

// ---- Owners ----------------------------------------------------------------
template <typename T> struct releaser;
#define LS_RELEASER_(type, release)                                            \
  template <> struct releaser<type> {                                          \
    void operator()(type *object) const noexcept { release(object); }          \
  };
LS_RELEASER_(ls_array, ls_array_release)
LS_RELEASER_(ls_attention_layer, ls_attention_layer_destroy)
LS_RELEASER_(ls_batch_norm_layer, ls_batch_norm_layer_destroy)
LS_RELEASER_(ls_conv_layer, ls_conv_layer_destroy)
LS_RELEASER_(ls_dataset, ls_dataset_release)
LS_RELEASER_(ls_dense_layer, ls_dense_layer_destroy)
LS_RELEASER_(ls_embedding_layer, ls_embedding_layer_destroy)
LS_RELEASER_(ls_function, ls_function_release)
LS_RELEASER_(ls_iterator, ls_iterator_release)
LS_RELEASER_(ls_norm_layer, ls_norm_layer_destroy)
LS_RELEASER_(ls_optimizer, ls_optimizer_release)
LS_RELEASER_(ls_recurrent_layer, ls_recurrent_layer_destroy)
LS_RELEASER_(ls_running_mean, ls_running_mean_destroy)
LS_RELEASER_(ls_strategy, ls_strategy_release)
LS_RELEASER_(ls_variable, ls_variable_release)
#undef LS_RELEASER_

// The one owner of an object. A program adds a type of lockstep/full.h by a
// specialization of `releaser`.
template <typename T> class owned {
public:
  owned() = default;
  explicit owned(T *object) noexcept : object_(object) {}
  operator T *() const noexcept { return object_.get(); }
  T *get() const noexcept { return object_.get(); }
  T *release() noexcept { return object_.release(); }

private:
  std::unique_ptr<T, releaser<T>> object_;
};

// Types of a function ls_noun_create(options, out_noun).
template <typename Options, typename T>
Options options_of(ls_status (*)(const Options *, T **));
template <typename Options, typename T>
T *object_of(ls_status (*)(const Options *, T **));

// Makes an object: make<ls_adam_create>(options), and from C++20 on
// make<ls_adam_create>({.learning_rate = 0.01}).
template <auto create>
auto make(const decltype(options_of(create)) &options = {}) {
  decltype(object_of(create)) object = nullptr;
  check(create(&options, &object));
  return owned(object);
}

// Makes a variable that starts with this value.
inline owned<ls_variable> variable(const char *name, const ls_array *initial,
                                   ls_variable_options options = {}) {
  options.name = name;
  options.initial_array = initial;
  return make<ls_variable_create>(options);
}

// Makes an array of zeros; `elements` has their address.
inline owned<ls_array> array(ls_dtype dtype, ls_shape shape) {
  ls_array *made = nullptr;
  check(ls_array_create(dtype, shape, &made));
  return owned<ls_array>(made);
}
template <typename T> T *elements(ls_array *array) {
  const ls_dtype dtype = ls_array_dtype(array);
  // Floats of 16 bits are read as integers.
  const bool may_differ = !std::is_arithmetic<T>::value || sizeof(T) <= 2;
  if (ls_dtype_size(dtype) != sizeof(T) ||
      (!may_differ &&
       ls_dtype_is_float(dtype) != std::is_floating_point<T>::value))
    throw error(LS_INVALID_ARGUMENT, std::string("an array of ") +
                                         ls_dtype_name(dtype) +
                                         " has elements of another type");
  return static_cast<T *>(ls_array_mutable_data(array));
}

// An open scope, left at the end of its block:
//   lockstep::scope names(ls_name_scope_begin, "dense");
class scope {
public:
  template <typename... Parameters, typename... Args>
  explicit scope(void (*begin)(ls_scope *, Parameters...), Args &&...args) {
    begin(&scope_, std::forward<Args>(args)...);
    const ls_status refusal = ls_scope_status();
    if (refusal == nullptr) return;
    ls_scope_end(&scope_);
    check(refusal);
  }
  ~scope() { ls_scope_end(&scope_); }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;

private:
  ls_scope scope_{};
};

// ---- Ranks -----------------------------------------------------------------
// The ranks that mpirun has started, and their share of the cores; without a
// launcher this process alone, which needs no MPI, and a null communicator.
class ranks {
public:
  ranks() {
    if (ls_mpi_find_launcher(nullptr).name == nullptr) return;
    check(ls_mpi_open(nullptr, &communicator_));
    const ls_status status = ls_communicator_share_cores(communicator_);
    if (status != nullptr) ls_status_free(ls_mpi_close(communicator_));
    check(status);
  }
  ~ranks() { ls_status_free(ls_mpi_close(communicator_)); }
  ranks(const ranks &) = delete;
  ranks &operator=(const ranks &) = delete;
  // Ends this rank when the others end; the destructor hides a failure of it.
  void close() { check(ls_mpi_close(std::exchange(communicator_, nullptr))); }

  operator ls_communicator *() const noexcept { return communicator_; }
  std::int32_t rank() const noexcept {
    return communicator_ == nullptr ? 0 : communicator_->rank;
  }

private:
  ls_communicator *communicator_ = nullptr;
};

// A runtime, current on this thread as long as it lives. What is made under it
// must be gone by then.
class runtime {
public:
  explicit runtime(const ls_runtime_options &options = {}) {
    check(ls_runtime_create(&options, &runtime_));
    previous_ = ls_runtime_make_current(runtime_);
  }
  ~runtime() { ls_status_free(end()); }
  runtime(const runtime &) = delete;
  runtime &operator=(const runtime &) = delete;
  // The destructor hides a failure of it. A runtime that is still in use is
  // refused, and stays current.
  void close() {
    const ls_status status = end();
    if (status != nullptr) ls_runtime_make_current(runtime_);
    check(status);
  }
  operator ls_runtime *() const noexcept { return runtime_; }

private:
  ls_status end() {
    if (runtime_ == nullptr) return nullptr;
    ls_runtime_make_current(previous_);
    const ls_status status = ls_runtime_destroy(runtime_);
    if (status == nullptr) runtime_ = nullptr;
    return status;
  }
  ls_runtime *runtime_ = nullptr, *previous_ = nullptr;
};

// ---- Nests -----------------------------------------------------------------
// The owner of a nest.
class nest {
public:
  nest() = default;
  // Takes over a nest of C; throws if it is a failed one.
  explicit nest(ls_nest taken) : nest_(taken) {
    if (ls_nest_is_failed(nest_)) {
      const ls_status status = ls_nest_status(nest_);
      ls_nest_release(nest_);
      nest_ = ls_none();
      check(status);
    }
  }
  nest(ls_tensor tensor) : nest_(ls_leaf(tensor)) {}
  nest(double number) : nest_(ls_nest_f64(number)) {}
  nest(owned<ls_array> array) : nest_(ls_nest_array(array.release())) {}
  nest(nest &&other) noexcept : nest_(other.give()) {}
  nest &operator=(nest &&other) noexcept {
    if (this != &other) {
      ls_nest_release(nest_);
      nest_ = other.give();
    }
    return *this;
  }
  ~nest() { ls_nest_release(nest_); }

  template <typename... Items> static nest tuple(Items &&...items) {
    // One more, as an array has at least one element.
    nest made[sizeof...(items) + 1] = {nest(std::forward<Items>(items))...};
    ls_nest given[sizeof...(items) + 1];
    for (std::size_t i = 0; i < sizeof...(items); ++i)
      given[i] = made[i].give();
    return nest(ls_nest_sequence(LS_KIND_TUPLE, given, sizeof...(items)));
  }
  // Makes a dict of {name, value} pairs.
  template <typename... Pairs> static nest dict(Pairs &&...pairs) {
    const char *const keys[sizeof...(pairs) + 1] = {pairs.first...};
    nest made[sizeof...(pairs) + 1] = {
        nest(std::forward<Pairs>(pairs).second)...};
    ls_nest given[sizeof...(pairs) + 1];
    for (std::size_t i = 0; i < sizeof...(pairs); ++i)
      given[i] = made[i].give();
    return nest(ls_nest_dict("", keys, given, sizeof...(pairs)));
  }

  operator ls_nest() const noexcept { return nest_; }
  ls_nest *address() noexcept { return &nest_; }  // For results, in-out.
  ls_nest give() noexcept { return std::exchange(nest_, ls_none()); }
  // The number in it; of a distributed value that of a replica.
  double number(std::size_t replica = 0) const {
    return ls_nest_number(ls_distributed_component(nest_, replica));
  }

private:
  ls_nest nest_ = ls_none();
};

// Return the result of a lambda as a nest of C.
inline ls_nest give(ls_nest result) noexcept { return result; }
inline ls_nest give(ls_tensor result) noexcept { return ls_leaf(result); }
inline ls_nest give(nest result) noexcept { return result.give(); }

// ---- Callbacks -------------------------------------------------------------
// A callback of C, and its `user`, of a lambda of a nest that returns a nest, a
// tensor or an ls_nest. The lambda lives as long as it.
class callback {
public:
  template <typename Lambda,
            typename = decltype(give(std::declval<Lambda &>()(ls_nest())))>
  explicit callback(Lambda lambda)
      : call_([lambda = std::move(lambda)](ls_nest args) mutable {
          return give(lambda(args));
        }) {}
  static ls_nest run(ls_nest args, void *user) noexcept {
    const callback *self = static_cast<const callback *>(user);
    return guard([&] { return self->call_(args); }, ls_fail);
  }

private:
  std::function<ls_nest(ls_nest)> call_;
};

// A traced function of a lambda, which it owns.
class function {
public:
  template <typename Lambda>
  explicit function(Lambda lambda, ls_function_options options = {}) {
    auto call = std::make_unique<callback>(std::move(lambda));
    options.call = callback::run;
    options.user = call.get();
    options.release = [](void *user) { delete static_cast<callback *>(user); };
    function_ = make<ls_function_create>(options);
    static_cast<void>(call.release());  // The function's now.
  }
  operator ls_function *() const noexcept { return function_; }

  // Calls it; `results` is in-out, so that a loop makes no allocation.
  void operator()(ls_nest args, nest &results) const {
    check(ls_function_call(function_, args, results.address()));
  }
  nest operator()(ls_nest args) const {
    nest results;
    (*this)(args, results);
    return results;
  }
  // Calls it on each replica of a strategy.
  void run(ls_strategy *strategy, ls_nest args, nest &results) const {
    check(ls_strategy_run(strategy, ls_traced(function_), args,
                          results.address()));
  }

private:
  owned<ls_function> function_;
};

// ---- Data ------------------------------------------------------------------
// A data set: each maker returns the next one.
class dataset {
public:
  // Takes over a data set of C; throws its failure.
  explicit dataset(ls_dataset *taken) : dataset_(taken) {
    if (taken == nullptr) throw error(LS_RESOURCE_EXHAUSTED, "out of memory");
    check(ls_dataset_status(taken));
  }
  operator ls_dataset *() const noexcept { return dataset_; }

  dataset shuffle(const ls_shuffle_options &options = {}) && {
    return dataset(ls_dataset_shuffle(dataset_.release(), &options));
  }
  dataset repeat(std::int64_t times = -1) && {
    return dataset(ls_dataset_repeat(dataset_.release(), times));
  }
  dataset take(std::int64_t count) && {
    return dataset(ls_dataset_take(dataset_.release(), count));
  }
  dataset skip(std::int64_t count) && {
    return dataset(ls_dataset_skip(dataset_.release(), count));
  }
  dataset batch(std::int64_t size, ls_batch_options options = {}) && {
    options.size = size;
    return dataset(ls_dataset_batch(dataset_.release(), &options));
  }
  dataset parts(std::int64_t count) && {
    return dataset(ls_dataset_parts(dataset_.release(), count));
  }
  // Maps elements by a lambda, on any thread.
  template <typename Lambda>
  dataset map(Lambda lambda, ls_map_options options = {}) && {
    options.call = [](ls_nest element, const ls_map_call *, void *user) {
      return callback::run(element, user);
    };
    options.user = new callback(std::move(lambda));
    options.release = [](void *user) { delete static_cast<callback *>(user); };
    return dataset(ls_dataset_map(dataset_.release(), &options));
  }

private:
  owned<ls_dataset> dataset_;
};

// A position in a data set.
class iterator {
public:
  explicit iterator(ls_dataset *dataset,
                    const ls_iterator_options &options = {}) {
    ls_iterator *made = nullptr;
    check(ls_iterator_create(dataset, &options, &made));
    iterator_ = owned<ls_iterator>(made);
  }
  operator ls_iterator *() const noexcept { return iterator_; }
  // Reads the next element; returns false at the end of the epoch.
  bool next(nest &element) {
    const ls_status status = ls_iterator_next(iterator_, element.address());
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      return false;
    }
    check(status);
    return true;
  }

private:
  owned<ls_iterator> iterator_;
};

// ---- Training --------------------------------------------------------------
// A model for ls_train, of two lambdas: the training step, whose result is a
// dict with "loss" and "accuracy", and the logits. `type` describes it.
class model {
public:
  template <typename Step, typename Logits>
  model(ls_model_type type, Step step, Logits logits,
        std::vector<ls_variable *> variables, ls_optimizer *optimizer)
      : self_(new state{type, callback(std::move(step)),
                        callback(std::move(logits)), std::move(variables),
                        optimizer}) {
    ls_model_type &made = self_->type;
    made.destroy = [](void *) {};
    made.train_step = [](ls_nest args, void *self) {
      return callback::run(args, &static_cast<state *>(self)->step);
    };
    made.logits = [](ls_nest args, void *self) {
      return callback::run(args, &static_cast<state *>(self)->logits);
    };
    made.variables = [](void *self, ls_variable **out, std::size_t capacity) {
      const auto &all = static_cast<state *>(self)->variables;
      for (std::size_t i = 0; i < all.size() && i < capacity; ++i)
        out[i] = all[i];
      return all.size();
    };
    made.optimizer = [](void *self) {
      return static_cast<state *>(self)->optimizer;
    };
    model_ = {&made, self_.get()};
  }
  operator const ls_model *() const noexcept { return &model_; }

private:
  struct state {
    ls_model_type type;
    callback step, logits;
    std::vector<ls_variable *> variables;
    ls_optimizer *optimizer;
  };
  std::unique_ptr<state> self_;
  ls_model model_{};
};

// Returns the variables of a layer: variables<ls_dense_layer_variables>(layer).
template <auto list, typename Layer>
std::vector<ls_variable *> variables(Layer *layer) {
  std::vector<ls_variable *> found(list(layer, nullptr, 0));
  list(layer, found.data(), found.size());
  return found;
}

inline ls_train_result train(const ls_train_options &options) {
  ls_train_result result{};
  check(ls_train(&options, &result));
  return result;
}

// Makes a number of the type of a tensor. Floats round it; other types must
// hold it.
inline ls_tensor number_like(ls_tensor x, double number) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  if (!ls_tensor_is_failed(x) && !ls_dtype_is_float(dtype)) {
    const auto made = array(dtype, LS_SCALAR);
    ls_array_set_f64(made, 0, number);
    // The largest i64 and u64 are read as one more, which they do not hold.
    const double end = dtype == LS_DTYPE_I64 ? 0x1p63 : 0x1p64;
    if (number >= end || ls_array_f64(made, 0) != number)
      throw error(LS_INVALID_ARGUMENT,
                  "a tensor of " + std::string(ls_dtype_name(dtype)) + " and " +
                      std::to_string(number) +
                      ", which that type does not hold: convert the tensor to "
                      "another type (ls_convert)");
  }
  return (ls_scalar)(dtype, number);
}

}  // namespace lockstep

// ---- Operators -------------------------------------------------------------
// A number has the other operand's type, which must hold it. Ops get the line
// of the next placed call, as an operator does not know its own.
#define LS_OPERATOR_(symbol, make)                                             \
  inline ls_tensor operator symbol(ls_tensor x, ls_tensor y) {                 \
    return (make)(x, y);                                                       \
  }                                                                            \
  inline ls_tensor operator symbol(ls_tensor x, double y) {                    \
    return (make)(x, lockstep::number_like(x, y));                             \
  }                                                                            \
  inline ls_tensor operator symbol(double x, ls_tensor y) {                    \
    return (make)(lockstep::number_like(y, x), y);                             \
  }
LS_OPERATOR_(+, ls_add)
LS_OPERATOR_(-, ls_sub)
LS_OPERATOR_(*, ls_mul)
LS_OPERATOR_(/, ls_div)
LS_OPERATOR_(<, ls_less)
LS_OPERATOR_(<=, ls_less_equal)
LS_OPERATOR_(>, ls_greater)
LS_OPERATOR_(>=, ls_greater_equal)
#undef LS_OPERATOR_
inline ls_tensor operator-(ls_tensor x) { return (ls_neg)(x); }

#endif  // LOCKSTEP_LOCKSTEP_HPP_
