// Mathematical functions, bits, random integers, barriers.
==== functions and bits
graph build "math" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3]} # "x" : f32[2,3]
  %2 = placeholder() {dtype = f32, shape = shape[?]} # "y" : f32[?]
  %3 = placeholder() {dtype = i16, shape = shape[?,3]} # "n" : i16[?,3]
  %4 = expm1(%1) : f32[2,3]
  %5 = log1p(%1) : f32[2,3]
  %6 = ceil(%1) : f32[2,3]
  %7 = floor(%1) : f32[2,3]
  %8 = round(%1) : f32[2,3]
  %9 = round_away(%2) : f32[?]
  %10 = cos(%1) : f32[2,3]
  %11 = sin(%1) : f32[2,3]
  %12 = tan(%1) : f32[2,3]
  %13 = cbrt(%1) : f32[2,3]
  %14 = erfc(%1) : f32[2,3]
  %15 = is_finite(%2) : bool[?]
  %16 = softplus(%1) : f32[2,3]
  %17 = gelu(%2) : f32[?]
  %18 = gelu_grad(%1, %2) : f32[2,3]
  %19 = atan2(%2, %1) : f32[2,3]
  %20 = remainder(%3, %3) : i16[?,3]
  %21 = not(%3) : i16[?,3]
  %22 = and(%3, %21) : i16[?,3]
  %23 = or(%15, %15) : bool[?]
  %24 = xor(%23, %15) : bool[?]
  %25 = shift_left(%3, %22) : i16[?,3]
  %26 = shift_right_arithmetic(%3, %22) : i16[?,3]
  %27 = shift_right_logical(%3, %22) : i16[?,3]
  %28 = popcount(%3) : i16[?,3]
  %29 = count_leading_zeros(%3) : i16[?,3]
  %30 = bitcast(%3) {dtype = f16} : f16[?,3]
  %31 = reduce_product(%1) {axes = [0], keep_dims = true} : f32[1,3]
  %32 = reduce_and(%15) {axes = [0]} : bool[]
  %33 = reduce_or(%24) {axes = []} : bool[?]
  %34 = random_truncated_normal(%2) {sizes = sizes[dim(0, 0), 4], dtype = f16, mean = 0.0, deviation = 0.02, seed = 1, stream = 0, fixed = true, same_on_all_replicas = false} : f16[?,4]
  %35 = random_bits() {sizes = sizes[7], dtype = u64, stream = 1} : u64[7]
  %36 = random_permutation(%2) {sizes = sizes[dim(0, 0)], dtype = i32, stream = 2} : i32[?]
  %37:2 = barrier(%1, %36) : f32[2,3], i32[?]
  %38 = barrier()
}
---- same
==== bits of floats
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = xor(%1, %1) : f32[]
}
---- INVALID_ARGUMENT
xor takes integers or bools, got f32[]
==== a shift of bools
graph build "g" {
  %1 = constant() {value = bool[] [true]} : bool[]
  %2 = shift_left(%1, %1) : bool[]
}
---- INVALID_ARGUMENT
shift_left takes integers, got bool[]
==== the logarithm of integers
graph build "g" {
  %1 = constant() {value = i32[] [1]} : i32[]
  %2 = log1p(%1) : i32[]
}
---- INVALID_ARGUMENT
log1p takes floats, got i32[]
==== the angle of integers
graph build "g" {
  %1 = constant() {value = i32[] [1]} : i32[]
  %2 = atan2(%1, %1) : i32[]
}
---- INVALID_ARGUMENT
atan2 takes floats, got i32[]
==== a bitcast to another size
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = bitcast(%1) {dtype = u64} : u64[]
}
---- INVALID_ARGUMENT
bitcast from f32 to u64: numbers of one size only
==== a bitcast of bools
graph build "g" {
  %1 = constant() {value = bool[] [true]} : bool[]
  %2 = bitcast(%1) {dtype = u8} : u8[]
}
---- INVALID_ARGUMENT
bitcast from bool to u8: numbers of one size only
==== whether all numbers hold
graph build "g" {
  %1 = constant() {value = f32[2] [1, 2]} : f32[2]
  %2 = reduce_and(%1) {axes = [0]} : f32[]
}
---- INVALID_ARGUMENT
reduce_and takes bools, got f32[2]
==== random bits as floats
graph build "g" {
  %1 = random_bits() {sizes = sizes[2], dtype = f32} : f32[2]
}
---- INVALID_ARGUMENT
random_bits returns u32 or u64, not f32
==== a permutation of a matrix
graph build "g" {
  %1 = random_permutation() {sizes = sizes[2, 3], dtype = i32} : i32[2,3]
}
---- INVALID_ARGUMENT
a permutation has rank 1, not 2
==== a permutation that is too long
graph build "g" {
  %1 = random_permutation() {sizes = sizes[4294967296], dtype = i32} : i32[4294967296]
}
---- INVALID_ARGUMENT
a permutation of 4294967296 does not fit into i32
==== a custom gradient without a callback
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = custom_gradient(%1, %1) {num_inputs = 1} : f32[]
}
---- INVALID_ARGUMENT
it needs the attribute 'gradient', an object
==== a custom gradient that is none
variable @"v" : f32[]
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = custom_gradient(%1) {num_inputs = 2, gradient = @"v"} : f32[]
}
---- INVALID_ARGUMENT
attribute 'gradient' is no custom_gradient
==== a meeting of too few
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = meeting(%1) {num_inputs = 2, op = "merge_call"} : f32[]
}
---- INVALID_ARGUMENT
meeting: 2 of 1 operands are inputs
==== what a replica got when it met the others
graph build "g" {
  %1 = constant() {value = f32[2] [1, 2]} : f32[2]
  %2 = meeting(%1, %1) {num_inputs = 1, op = "all_reduce", reduce = "sum"} : f32[2]
  %3:2 = meeting(%1, %1, %2) {num_inputs = 1, op = "merge_call"} : f32[2], f32[2]
}
---- same
==== a meeting by something
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = meeting(%1, %1) {num_inputs = 1} : f32[]
}
---- INVALID_ARGUMENT
it needs the attribute 'op', a string
==== a meeting that reduces somehow
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = meeting(%1, %1) {num_inputs = 1, op = "all_reduce"} : f32[]
}
---- INVALID_ARGUMENT
it needs the attribute 'reduce', a string
==== a gradient that gives the result again
graph lowered "again" {
  %1 = parameter() {dtype = f32, shape = shape[2,3], index = 0} : f32[2,3]
  %2:2 = gelu_again(%1, %1) : f32[2,3], f32[2,3]
  return %2:1
}
---- same
==== a sum of products
graph lowered "sum" {
  %1 = parameter() {dtype = f32, shape = shape[2,3], index = 0} : f32[2,3]
  %2 = parameter() {dtype = f32, shape = shape[2,5], index = 1} : f32[2,5]
  %3 = parameter() {dtype = f32, shape = shape[4,3], index = 2} : f32[4,3]
  %4 = parameter() {dtype = f32, shape = shape[4,5], index = 3} : f32[4,5]
  %5 = add_products(%1, %2, %3, %4) : f32[3,5]
  return %5
}
---- same
==== products of other sizes cannot be added
graph lowered "sum" {
  %1 = parameter() {dtype = f32, shape = shape[2,3], index = 0} : f32[2,3]
  %2 = parameter() {dtype = f32, shape = shape[2,5], index = 1} : f32[2,5]
  %3 = add_products(%1, %2, %2, %1) : f32[3,5]
  return %3
}
---- INVALID_ARGUMENT
add_products needs pairs of matrices of f32 or f64 with equal rows, and equal columns of all left and of all right ones
==== gelu_again does not broadcast
graph lowered "again" {
  %1 = parameter() {dtype = f32, shape = shape[2,3], index = 0} : f32[2,3]
  %2 = parameter() {dtype = f32, shape = shape[3], index = 1} : f32[3]
  %3:2 = gelu_again(%1, %2) : f32[2,3], f32[3]
  return %3:1
}
---- INVALID_ARGUMENT
gelu_again of f32[2,3] and f32[3]: the shapes differ
