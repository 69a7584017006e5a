! SPDX-License-Identifier: Apache-2.0
!
! Lockstep from Fortran 2008, by iso_c_binding: what a program needs to train a
! net in its own process or over MPI. Types, constants and functions have the
! names and the meaning that the headers of C give them; a program declares
! further functions in interfaces of its own, as here. Options are types whose
! components have the defaults of C, and a name is a null-terminated text:
!
!   options = ls_dense_options(inputs=9, units=16)
!   call check(ls_dense_layer_create(options, layer))
!
! Callbacks are functions with bind(c) of a nest and an address:
!
!   function step(args, user) bind(c) result(loss)
!     type(ls_nest), value :: args
!     type(c_ptr), value :: user
!     type(ls_nest) :: loss
module lockstep
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  public

  enum, bind(c)
    enumerator :: ls_dtype_f64 = 1, ls_dtype_f32 = 2, ls_dtype_i32 = 7, &
      ls_dtype_i64 = 8
  end enum
  enum, bind(c)
    enumerator :: ls_kind_tensor = 2, ls_kind_tuple = 10
  end enum
  enum, bind(c)
    enumerator :: ls_activation_none = 0, ls_activation_relu = 1
  end enum
  enum, bind(c)
    enumerator :: ls_reduction_mean = 0, ls_reduction_sum = 1, &
      ls_reduction_none = 2
  end enum
  enum, bind(c)
    enumerator :: ls_reduce_sum = 0, ls_reduce_mean = 1
  end enum

  ! ---- Values --------------------------------------------------------------
  type, bind(c) :: ls_tensor
    type(c_ptr) :: graph = c_null_ptr
    integer(c_int64_t) :: ref = 0
  end type
  type, bind(c) :: ls_op
    type(c_ptr) :: graph = c_null_ptr
    integer(c_int64_t) :: id = 0
  end type
  ! The union of C is its two words.
  type, bind(c) :: ls_nest
    integer(c_int) :: kind = 0, dtype = 0
    integer(c_int64_t) :: as(2) = 0
  end type
  type, bind(c) :: ls_shape
    integer(c_int32_t) :: rank = 0
    integer(c_int64_t) :: dim(8) = 0
  end type
  type, bind(c) :: ls_opt
    logical(c_bool) :: set = .false.
    integer(c_long_long) :: value = 0
  end type

  ! ---- Options -------------------------------------------------------------
  type, bind(c) :: ls_initializer
    type(c_ptr) :: words(3) = c_null_ptr
  end type
  type, bind(c) :: ls_dense_options
    type(c_ptr) :: name = c_null_ptr
    integer(c_int64_t) :: inputs = 0, units = 0
    integer(c_int) :: activation = ls_activation_none
    logical(c_bool) :: no_bias = .false.
    integer(c_int) :: dtype = 0
    type(ls_initializer) :: kernel_initializer, bias_initializer
    integer(c_int64_t) :: seed = 0
  end type
  type, bind(c) :: ls_schedule
    integer(c_int) :: kind = 0
    integer(c_int64_t) :: steps = 0
    real(c_double) :: end = 0, factor = 0
    integer(c_int64_t) :: warmup = 0
    type(c_funptr) :: custom = c_null_funptr
    type(c_ptr) :: user = c_null_ptr
  end type
  type, bind(c) :: ls_clip
    real(c_double) :: value = 0, norm = 0, global_norm = 0
  end type
  type, bind(c) :: ls_adam_options
    type(c_ptr) :: name = c_null_ptr
    real(c_double) :: learning_rate = 0
    type(ls_schedule) :: schedule
    type(ls_clip) :: clip
    real(c_double) :: weight_decay = 0
    type(c_funptr) :: decays = c_null_funptr
    integer(c_int) :: over_replicas = 0
    integer(c_int64_t) :: accumulate = 0
    type(c_funptr) :: lazy = c_null_funptr
    logical(c_bool) :: counts = .false.
    real(c_double) :: beta1 = 0, beta2 = 0, epsilon = 0
    logical(c_bool) :: no_momentum = .false.
  end type
  type, bind(c) :: ls_sgd_options
    type(c_ptr) :: name = c_null_ptr
    real(c_double) :: learning_rate = 0
    type(ls_schedule) :: schedule
    type(ls_clip) :: clip
    real(c_double) :: weight_decay = 0
    type(c_funptr) :: decays = c_null_funptr
    integer(c_int) :: over_replicas = 0
    integer(c_int64_t) :: accumulate = 0
    type(c_funptr) :: lazy = c_null_funptr
    logical(c_bool) :: counts = .false.
    real(c_double) :: momentum = 0
    logical(c_bool) :: nesterov = .false.
  end type
  type, bind(c) :: ls_mirrored_options
    type(c_ptr) :: name = c_null_ptr
    type(ls_opt) :: num_replicas
    type(c_ptr) :: devices = c_null_ptr
    integer(c_size_t) :: num_devices = 0
    type(ls_opt) :: num_gpus
    type(c_ptr) :: cross_device = c_null_ptr
    integer(c_int) :: prefetch = 0
    type(c_ptr) :: scope_prefix = c_null_ptr
    integer(c_int) :: variable_policies = 0
  end type
  type, bind(c) :: ls_function_options
    type(c_funptr) :: call = c_null_funptr
    type(c_ptr) :: user = c_null_ptr, name = c_null_ptr
    type(c_funptr) :: release = c_null_funptr
    integer(c_int64_t) :: seed = 0
    type(c_ptr) :: parameters = c_null_ptr
  end type
  type, bind(c) :: ls_callable
    type(c_ptr) :: traced = c_null_ptr
    type(c_funptr) :: plain = c_null_funptr
    type(c_ptr) :: user = c_null_ptr, parameters = c_null_ptr, &
      object = c_null_ptr
  end type
  type, bind(c) :: ls_runtime_options
    type(c_ptr) :: allocator = c_null_ptr
    type(c_funptr) :: log = c_null_funptr
    type(c_ptr) :: log_user = c_null_ptr, clock = c_null_ptr, &
      file_system = c_null_ptr
    type(c_funptr) :: environment = c_null_funptr
    type(c_ptr) :: environment_user = c_null_ptr
    integer(c_int) :: threads = 0, math = 0
    integer(c_int64_t) :: stall_ms = 0
    integer(c_int) :: cpus = 0, gpus = 0
    type(ls_opt) :: input_threads
    integer(c_int64_t) :: input_bytes = 0
    type(c_ptr) :: communicator = c_null_ptr, device = c_null_ptr
    integer(c_int) :: num_devices = 0
    logical(c_bool) :: exact_bits = .false., find_nan = .false.
    type(c_ptr) :: topology = c_null_ptr
  end type
  type, bind(c) :: ls_mpi_options
    type(ls_opt) :: communicator
    type(c_funptr) :: environment = c_null_funptr
    type(c_ptr) :: environment_user = c_null_ptr
  end type
  type, bind(c) :: ls_mpi_launcher
    type(c_ptr) :: name = c_null_ptr, variable = c_null_ptr
    integer(c_int32_t) :: ranks = 0
  end type
  type, bind(c) :: ls_synthetic_options
    integer(c_int64_t) :: size = 0
    integer(c_int) :: dtype = 0
    type(ls_shape) :: shape
    integer(c_int64_t) :: num_classes = 0, seed = 0, sample = 0
    type(ls_shape) :: label_shape
  end type

  ! ---- Models and training -------------------------------------------------
  type, bind(c) :: ls_model_type
    type(c_ptr) :: name = c_null_ptr, description = c_null_ptr
    integer(c_int64_t) :: batch_size = 0, epochs = 0
    real(c_double) :: learning_rate = 0
    integer(c_int) :: example_dtype = 0
    type(ls_shape) :: example_shape, label_shape
    integer(c_int64_t) :: num_classes = 0
    real(c_double) :: flops_per_example = 0
    type(c_funptr) :: create = c_null_funptr, destroy = c_null_funptr, &
      train_step = c_null_funptr, logits = c_null_funptr, &
      variables = c_null_funptr, optimizer = c_null_funptr
    logical(c_bool) :: any_inputs = .false.
    type(c_ptr) :: task = c_null_ptr
    logical(c_bool) :: any_task = .false., any_outputs = .false.
    type(c_ptr) :: user = c_null_ptr
  end type
  type, bind(c) :: ls_model
    type(c_ptr) :: type = c_null_ptr, self = c_null_ptr
  end type
  type, bind(c) :: ls_train_log
    type(c_funptr) :: line = c_null_funptr
    type(c_ptr) :: user = c_null_ptr
  end type
  type, bind(c) :: ls_train_options
    type(c_ptr) :: model = c_null_ptr, strategy = c_null_ptr, &
      train = c_null_ptr
    integer(c_int64_t) :: num_examples = 0
    type(c_ptr) :: test = c_null_ptr
    integer(c_int64_t) :: batch_size = 0, epochs = 0, steps = 0
    logical(c_bool) :: only_saves = .false.
    integer(c_int64_t) :: seed = 0, iterations_per_loop = 0
    integer(c_int) :: loop_infeed = 0
    type(c_ptr) :: run_folder = c_null_ptr
    logical(c_bool) :: overwrite = .false., resume = .false.
    type(c_ptr) :: from = c_null_ptr
    type(ls_opt) :: from_step
    logical(c_bool) :: inexact = .false.
    type(c_ptr) :: warm_start = c_null_ptr
    integer(c_int64_t) :: save_seconds = 0, save_steps = 0
    logical(c_bool) :: save_goes_on = .false.
    integer(c_int) :: save_background = 0
    type(ls_opt) :: keep
    real(c_double) :: keep_every_hours = 0
    type(c_ptr) :: keep_best = c_null_ptr, stop_early = c_null_ptr
    integer(c_int64_t) :: patience = 0
    real(c_double) :: min_delta = 0
    type(c_ptr) :: states = c_null_ptr
    integer(c_size_t) :: num_states = 0
    type(c_ptr) :: events = c_null_ptr, config = c_null_ptr
    integer(c_int64_t) :: check_ranks = 0, checksum = 0
    logical(c_bool) :: gradient_norm = .false., attest = .false.
    integer(c_int64_t) :: log_every = 0
    type(ls_train_log) :: log
    type(c_ptr) :: stop = c_null_ptr
    type(c_funptr) :: report = c_null_funptr
    type(c_ptr) :: report_user = c_null_ptr, hooks = c_null_ptr
    integer(c_size_t) :: num_hooks = 0
  end type
  type, bind(c) :: ls_evaluation
    integer(c_int64_t) :: examples = 0
    real(c_double) :: loss = 0, accuracy = 0, mean_iou = 0
  end type
  type, bind(c) :: ls_train_result
    integer(c_int64_t) :: steps = 0
    real(c_double) :: seconds = 0
    logical(c_bool) :: stopped = .false., tested = .false.
    type(ls_evaluation) :: test
    logical(c_bool) :: stopped_early = .false.
    integer(c_int64_t) :: best_step = 0
    real(c_double) :: best = 0
    type(c_ptr) :: task = c_null_ptr
  end type

  interface
    ! ---- Status ------------------------------------------------------------
    integer(c_int) function ls_status_code(status) bind(c)
      import; type(c_ptr), value :: status
    end function
    type(c_ptr) function ls_status_message(status) bind(c)
      import; type(c_ptr), value :: status
    end function
    subroutine ls_status_free(status) bind(c)
      import; type(c_ptr), value :: status
    end subroutine
    ! Takes both over; a statement's end, so that a failure is the first one.
    type(c_ptr) function ls_status_join(first, second) bind(c)
      import; type(c_ptr), value :: first, second
    end function

    ! ---- Nests and arrays --------------------------------------------------
    type(ls_nest) function ls_nest_sequence(kind, items, count) bind(c)
      import; integer(c_int), value :: kind
      type(ls_nest), intent(in) :: items(*)
      integer(c_size_t), value :: count
    end function
    type(ls_nest) function ls_nest_dict(type_tag, keys, items, count) bind(c)
      import; character(kind=c_char), intent(in) :: type_tag(*)
      type(c_ptr), intent(in) :: keys(*)
      type(ls_nest), intent(in) :: items(*)
      integer(c_size_t), value :: count
    end function
    type(ls_nest) function ls_nest_zeros(dtype, shape) bind(c)
      import; integer(c_int), value :: dtype; type(ls_shape), value :: shape
    end function
    type(ls_nest) function ls_fail(status) bind(c)
      import; type(c_ptr), value :: status
    end function
    type(ls_nest) function ls_nest_item(nest, index) bind(c)
      import; type(ls_nest), value :: nest; integer(c_size_t), value :: index
    end function
    type(ls_tensor) function ls_nest_tensor(nest, index) bind(c)
      import; type(ls_nest), value :: nest; integer(c_size_t), value :: index
    end function
    type(c_ptr) function ls_nest_data(nest, index) bind(c)
      import; type(ls_nest), value :: nest; integer(c_size_t), value :: index
    end function
    real(c_double) function ls_nest_number(nest) bind(c)
      import; type(ls_nest), value :: nest
    end function
    type(c_ptr) function ls_nest_status(nest) bind(c)
      import; type(ls_nest), value :: nest
    end function
    subroutine ls_nest_release(nest) bind(c)
      import; type(ls_nest), value :: nest
    end subroutine
    type(ls_nest) function ls_distributed_component(leaf, replica) bind(c)
      import; type(ls_nest), value :: leaf; integer(c_size_t), value :: replica
    end function
    type(c_ptr) function ls_array_data(array) bind(c)
      import; type(c_ptr), value :: array
    end function
    real(c_double) function ls_array_f64(array, index) bind(c)
      import; type(c_ptr), value :: array; integer(c_int64_t), value :: index
    end function
    subroutine ls_array_release(array) bind(c)
      import; type(c_ptr), value :: array
    end subroutine

    ! ---- Ops, layers, optimizers -------------------------------------------
    type(ls_tensor) function ls_add(x, y) bind(c)
      import; type(ls_tensor), value, intent(in) :: x, y
    end function
    type(ls_tensor) function ls_sub(x, y) bind(c)
      import; type(ls_tensor), value, intent(in) :: x, y
    end function
    type(ls_tensor) function ls_mul(x, y) bind(c)
      import; type(ls_tensor), value, intent(in) :: x, y
    end function
    type(ls_tensor) function ls_div(x, y) bind(c)
      import; type(ls_tensor), value, intent(in) :: x, y
    end function
    type(ls_tensor) function ls_matmul(x, y) bind(c)
      import; type(ls_tensor), value :: x, y
    end function
    type(ls_tensor) function ls_relu(x) bind(c)
      import; type(ls_tensor), value :: x
    end function
    type(ls_tensor) function ls_tanh(x) bind(c)
      import; type(ls_tensor), value :: x
    end function
    type(ls_tensor) function ls_mean_squared_error(x, y, reduction) bind(c)
      import; type(ls_tensor), value :: x, y
      integer(c_int), value :: reduction
    end function
    type(ls_tensor) function ls_mean_softmax_cross_entropy(logits, labels) &
        bind(c)
      import; type(ls_tensor), value :: logits, labels
    end function
    type(ls_tensor) function ls_accuracy(logits, labels) bind(c)
      import; type(ls_tensor), value :: logits, labels
    end function
    type(ls_tensor) function ls_all_reduce(op, x) bind(c)
      import; integer(c_int), value :: op; type(ls_tensor), value :: x
    end function
    type(c_ptr) function ls_dense_layer_create(options, layer) bind(c)
      import; type(ls_dense_options), intent(in) :: options
      type(c_ptr), intent(out) :: layer
    end function
    type(ls_tensor) function ls_dense_layer_apply(layer, x) bind(c)
      import; type(c_ptr), value :: layer; type(ls_tensor), value :: x
    end function
    type(c_ptr) function ls_dense_layer_kernel(layer) bind(c)
      import; type(c_ptr), value :: layer
    end function
    ! Writes up to `capacity` of the layer's variables, and returns their number.
    integer(c_size_t) function ls_dense_layer_variables(layer, variables, &
                                                        capacity) bind(c)
      import; type(c_ptr), value :: layer
      type(c_ptr), intent(inout) :: variables(*)
      integer(c_size_t), value :: capacity
    end function
    subroutine ls_dense_layer_destroy(layer) bind(c)
      import; type(c_ptr), value :: layer
    end subroutine
    type(c_ptr) function ls_adam_create(options, optimizer) bind(c)
      import; type(ls_adam_options), intent(in) :: options
      type(c_ptr), intent(out) :: optimizer
    end function
    type(c_ptr) function ls_sgd_create(options, optimizer) bind(c)
      import; type(ls_sgd_options), intent(in) :: options
      type(c_ptr), intent(out) :: optimizer
    end function
    type(ls_op) function ls_optimizer_minimize(optimizer, loss) bind(c)
      import; type(c_ptr), value :: optimizer; type(ls_tensor), value :: loss
    end function
    subroutine ls_optimizer_release(optimizer) bind(c)
      import; type(c_ptr), value :: optimizer
    end subroutine
    type(c_ptr) function ls_variable_value(variable, array) bind(c)
      import; type(c_ptr), value :: variable
      type(c_ptr), intent(out) :: array
    end function

    ! ---- Functions and strategies ------------------------------------------
    type(c_ptr) function ls_function_create(options, function) bind(c)
      import; type(ls_function_options), intent(in) :: options
      type(c_ptr), intent(out) :: function
    end function
    type(c_ptr) function ls_function_call(function, args, results) bind(c)
      import; type(c_ptr), value :: function; type(ls_nest), value :: args
      type(ls_nest), intent(inout) :: results
    end function
    subroutine ls_function_release(function) bind(c)
      import; type(c_ptr), value :: function
    end subroutine
    type(c_ptr) function ls_mirrored_strategy_create(options, strategy) bind(c)
      import; type(ls_mirrored_options), intent(in) :: options
      type(c_ptr), intent(out) :: strategy
    end function
    type(c_ptr) function ls_strategy_run(strategy, callable, args, results) &
        bind(c)
      import; type(c_ptr), value :: strategy
      type(ls_callable), value :: callable
      type(ls_nest), value :: args
      type(ls_nest), intent(inout) :: results
    end function
    subroutine ls_strategy_release(strategy) bind(c)
      import; type(c_ptr), value :: strategy
    end subroutine
    type(c_ptr) function ls_train_split(strategy, batch, args) bind(c)
      import; type(c_ptr), value :: strategy; type(ls_nest), value :: batch
      type(ls_nest), intent(out) :: args
    end function

    ! ---- Data and training -------------------------------------------------
    type(c_ptr) function ls_dataset_synthetic(options) bind(c)
      import; type(ls_synthetic_options), intent(in) :: options
    end function
    type(c_ptr) function ls_dataset_status(dataset) bind(c)
      import; type(c_ptr), value :: dataset
    end function
    subroutine ls_dataset_release(dataset) bind(c)
      import; type(c_ptr), value :: dataset
    end subroutine
    type(c_ptr) function ls_train(options, outcome) bind(c)
      import; type(ls_train_options), intent(in) :: options
      type(ls_train_result), intent(out) :: outcome
    end function

    ! ---- Runtime and ranks -------------------------------------------------
    type(c_ptr) function ls_runtime_create(options, runtime) bind(c)
      import; type(ls_runtime_options), intent(in) :: options
      type(c_ptr), intent(out) :: runtime
    end function
    type(c_ptr) function ls_runtime_destroy(runtime) bind(c)
      import; type(c_ptr), value :: runtime
    end function
    type(c_ptr) function ls_runtime_make_current(runtime) bind(c)
      import; type(c_ptr), value :: runtime
    end function
    type(c_ptr) function ls_mpi_open(options, communicator) bind(c)
      import; type(ls_mpi_options), intent(in) :: options
      type(c_ptr), intent(out) :: communicator
    end function
    ! `options` may be c_null_ptr; the name is c_null_ptr without a launcher.
    type(ls_mpi_launcher) function ls_mpi_find_launcher(options) bind(c)
      import; type(c_ptr), value :: options
    end function
    type(c_ptr) function ls_communicator_share_cores(communicator) bind(c)
      import; type(c_ptr), value :: communicator
    end function
    type(c_ptr) function ls_mpi_close(communicator) bind(c)
      import; type(c_ptr), value :: communicator
    end function
  end interface

  interface operator(+)
    procedure ls_add
  end interface
  interface operator(-)
    procedure ls_sub
  end interface
  interface operator(*)
    procedure ls_mul
  end interface
  interface operator(/)
    procedure ls_div
  end interface

contains

  ! The inline functions of C.
  function ls_leaf(tensor) result(leaf)
    type(ls_tensor), intent(in) :: tensor
    type(ls_nest) :: leaf
    leaf%kind = ls_kind_tensor
    leaf%as = [transfer(tensor%graph, leaf%as(1)), tensor%ref]
  end function

  function ls_tuple(items) result(tuple)
    type(ls_nest), intent(in) :: items(:)
    type(ls_nest) :: tuple
    tuple = ls_nest_sequence(ls_kind_tuple, items, &
                             size(items, kind=c_size_t))
  end function

  ! A dict of these keys, whose ends are filled with blanks.
  function ls_dict(keys, items) result(dict)
    character(*), intent(in) :: keys(:)
    type(ls_nest), intent(in) :: items(:)
    type(ls_nest) :: dict
    character(kind=c_char), target :: letters(len(keys) + 1, size(keys))
    integer :: i
    do i = 1, size(keys)
      letters(:, i) = transfer(trim(keys(i)) // repeat(c_null_char, &
        len(keys) + 1 - len_trim(keys(i))), letters(:, i))
    end do
    dict = ls_nest_dict([c_null_char], [(c_loc(letters(1, i)), &
                        i=1, size(keys))], items, size(keys, kind=c_size_t))
  end function

  function ls_some(value) result(opt)
    integer, intent(in) :: value
    type(ls_opt) :: opt
    opt = ls_opt(.true._c_bool, int(value, c_long_long))
  end function

  ! Calls refuse a shape of more than 8 sizes by its rank.
  function ls_shape_of(sizes) result(shape)
    integer, intent(in) :: sizes(:)
    type(ls_shape) :: shape
    integer :: held
    held = min(size(sizes), size(shape%dim))
    shape%rank = size(sizes)
    shape%dim(:held) = sizes(:held)
  end function

  function ls_traced(function) result(callable)
    type(c_ptr), intent(in) :: function
    type(ls_callable) :: callable
    callable%traced = function
  end function

  ! Returns the text of a status that is not OK, "" for OK; frees it.
  function status_text(status) result(text)
    type(c_ptr), intent(in) :: status
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    text = ""
    if (.not. c_associated(status)) return
    call c_f_pointer(ls_status_message(status), letters, [1000000])
    i = 1
    do while (letters(i) /= c_null_char)
      text = text // letters(i)
      i = i + 1
    end do
    call ls_status_free(status)
  end function

  ! Ends the program with the text of a status that is not OK.
  subroutine check(status)
    type(c_ptr), intent(in) :: status
    if (.not. c_associated(status)) return
    write (error_unit, '(a)') status_text(status)
    error stop 1
  end subroutine
end module
