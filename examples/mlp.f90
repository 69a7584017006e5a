! SPDX-License-Identifier: Apache-2.0
!
! From Fortran: the model `mlp` as a program writes it, trained on eight
! replicas, here or on the ranks that mpirun starts. The weights have the bytes
! of `lockstep train --model mlp --replicas 8`.
!
!   gfortran lockstep.f90 mlp.f90 $(pkg-config --libs lockstep)
!   ./a.out [RUN_FOLDER [STEPS]]
module mlp
  use lockstep
  implicit none
  integer, parameter :: replicas = 8, classes = 10, inputs = 784, units = 512

  type net
    type(c_ptr) :: layers(3) = c_null_ptr, optimizer = c_null_ptr
  end type

contains

  type(c_ptr) function dense(name, inputs, units, activation) result(layer)
    character(*), intent(in) :: name
    integer, intent(in) :: inputs, units, activation
    character(kind=c_char, len=:), allocatable, target :: text
    text = name // c_null_char
    call check(ls_dense_layer_create( &
      ls_dense_options(name=c_loc(text), inputs=inputs, units=units, &
                       activation=activation), layer))
  end function

  ! ---- The model -----------------------------------------------------------
  function make_logits(n, args) result(x)
    type(net), intent(in) :: n
    type(ls_nest), intent(in) :: args
    type(ls_tensor) :: x
    integer :: i
    x = ls_nest_tensor(args, 0_c_size_t)
    do i = 1, size(n%layers)
      x = ls_dense_layer_apply(n%layers(i), x)
    end do
  end function

  function logits(args, self) bind(c) result(found)
    type(ls_nest), value :: args
    type(c_ptr), value :: self
    type(ls_nest) :: found
    type(net), pointer :: n
    call c_f_pointer(self, n)
    found = ls_leaf(make_logits(n, args))
  end function

  function train_step(args, self) bind(c) result(made)
    type(ls_nest), value :: args
    type(c_ptr), value :: self
    type(ls_nest) :: made
    type(net), pointer :: n
    type(ls_tensor) :: found, labels, loss
    type(ls_op) :: done
    call c_f_pointer(self, n)
    found = make_logits(n, args)
    labels = ls_nest_tensor(args, 1_c_size_t)
    loss = ls_mean_softmax_cross_entropy(found, labels)
    done = ls_optimizer_minimize(n%optimizer, loss)
    made = ls_dict(["loss    ", "accuracy"], &
                   [ls_leaf(loss), ls_leaf(ls_accuracy(found, labels))])
  end function

  integer(c_size_t) function variables(self, found, capacity) bind(c)
    type(c_ptr), value :: self
    type(c_ptr), intent(inout) :: found(*)
    integer(c_size_t), value :: capacity
    type(net), pointer :: n
    integer :: i
    call c_f_pointer(self, n)
    variables = 0
    do i = 1, size(n%layers)
      variables = variables + ls_dense_layer_variables( &
        n%layers(i), found(variables + 1), &
        max(capacity, variables) - variables)
    end do
  end function

  type(c_ptr) function optimizer(self) bind(c)
    type(c_ptr), value :: self
    type(net), pointer :: n
    call c_f_pointer(self, n)
    optimizer = n%optimizer
  end function

  subroutine destroy(self) bind(c)  ! `train` does.
    type(c_ptr), value :: self
    if (c_associated(self)) return
  end subroutine

  ! ---- Training ------------------------------------------------------------
  subroutine train(run_folder, steps)
    character(*), intent(in) :: run_folder
    integer, intent(in) :: steps
    character(kind=c_char, len=:), allocatable, target :: name, folder
    type(net), target :: n
    type(ls_model_type), target :: kind
    type(ls_model), target :: model
    type(c_ptr) :: strategy, data
    type(ls_train_options) :: options
    type(ls_train_result) :: outcome
    integer :: i
    call check(ls_mirrored_strategy_create( &
      ls_mirrored_options(num_replicas=ls_some(replicas)), strategy))
    call check(ls_sgd_create( &
      ls_sgd_options(learning_rate=0.1_c_double), n%optimizer))
    n%layers = [dense("hidden1", inputs, units, ls_activation_relu), &
                dense("hidden2", units, units, ls_activation_relu), &
                dense("logits", units, classes, ls_activation_none)]
    name = "mlp" // c_null_char
    kind = ls_model_type( &
      name=c_loc(name), batch_size=256, epochs=20, &
      learning_rate=0.1_c_double, example_dtype=ls_dtype_f32, &
      example_shape=ls_shape_of([inputs]), num_classes=classes, &
      destroy=c_funloc(destroy), train_step=c_funloc(train_step), &
      logits=c_funloc(logits), variables=c_funloc(variables), &
      optimizer=c_funloc(optimizer))
    model = ls_model(c_loc(kind), c_loc(n))
    data = ls_dataset_synthetic(ls_synthetic_options( &
      size=8192, shape=ls_shape_of([inputs]), num_classes=classes))
    call check(ls_dataset_status(data))
    options = ls_train_options(model=c_loc(model), strategy=strategy, &
                               train=data, steps=steps)
    folder = run_folder // c_null_char
    if (len(run_folder) > 0) options%run_folder = c_loc(folder)
    call check(ls_train(options, outcome))
    call ls_dataset_release(data)
    call ls_strategy_release(strategy)
    call ls_optimizer_release(n%optimizer)
    do i = 1, size(n%layers)
      call ls_dense_layer_destroy(n%layers(i))
    end do
  end subroutine

  ! The argument of the command; "" if there are less.
  function argument(i) result(text)
    integer, intent(in) :: i
    character(:), allocatable :: text
    integer :: length
    call get_command_argument(i, length=length)
    allocate (character(length) :: text)
    if (length > 0) call get_command_argument(i, text)
  end function
end module

program train_mlp
  use mlp
  implicit none
  type(ls_mpi_launcher) :: launcher
  type(c_ptr) :: ranks = c_null_ptr, runtime, previous
  integer :: steps = 32
  character(:), allocatable :: text
  text = argument(2)
  if (len(text) > 0) read (text, *) steps
  launcher = ls_mpi_find_launcher(c_null_ptr)
  if (c_associated(launcher%name)) then
    call check(ls_mpi_open(ls_mpi_options(), ranks))
    call check(ls_communicator_share_cores(ranks))
  end if
  call check(ls_runtime_create(ls_runtime_options(communicator=ranks), runtime))
  previous = ls_runtime_make_current(runtime)
  call train(argument(1), steps)
  previous = ls_runtime_make_current(previous)
  call check(ls_runtime_destroy(runtime))
  call check(ls_mpi_close(ranks))
end program
