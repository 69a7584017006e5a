// Every op that needs no region, with the types its shape rule gives.
==== elementwise ops
graph build "elementwise" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3]} # "x" : f32[2,3]
  %2 = placeholder() {dtype = f32, shape = shape[?]} # "y" : f32[?]
  %3 = neg(%1) : f32[2,3]
  %4 = abs(%1) : f32[2,3]
  %5 = sign(%1) : f32[2,3]
  %6 = exp(%1) : f32[2,3]
  %7 = log(%1) : f32[2,3]
  %8 = sqrt(%1) : f32[2,3]
  %9 = rsqrt(%1) : f32[2,3]
  %10 = tanh(%1) : f32[2,3]
  %11 = sigmoid(%1) : f32[2,3]
  %12 = erf(%1) : f32[2,3]
  %13 = relu(%1) : f32[2,3]
  %14 = convert(%2) {dtype = bool} : bool[?]
  %15 = not(%14) : bool[?]
  %16 = add(%1, %2) : f32[2,3]
  %17 = sub(%1, %2) : f32[2,3]
  %18 = mul(%1, %2) : f32[2,3]
  %19 = div(%1, %2) : f32[2,3]
  %20 = maximum(%1, %2) : f32[2,3]
  %21 = minimum(%1, %2) : f32[2,3]
  %22 = pow(%2, %2) : f32[?]
  %23 = and(%14, %15) : bool[?]
  %24 = or(%14, %15) : bool[?]
  %25 = equal(%1, %1) : bool[2,3]
  %26 = not_equal(%1, %1) : bool[2,3]
  %27 = less(%1, %1) : bool[2,3]
  %28 = less_equal(%1, %1) : bool[2,3]
  %29 = greater(%1, %1) : bool[2,3]
  %30 = greater_equal(%1, %1) : bool[2,3]
  %31 = select(%30, %1, %2) : f32[2,3]
  %32 = relu_grad(%1, %1) : f32[2,3]
  %33 = identity(%1) : f32[2,3]
  %34 = stop_gradient(%1) : f32[2,3]
  %35 = add_n(%1, %33, %34) : f32[2,3]
  %36 = dim_size(%2) {axis = 0} : i64[]
  %37 = all_reduce(%1) {reduce = "mean"} : f32[2,3]
  %38 = replica_id() : i32[]
}
---- same
==== ops that change shapes
graph build "shapes" {
  %1 = placeholder() {dtype = f32, shape = shape[?,3]} # "x" : f32[?,3]
  %2 = placeholder() {dtype = f32, shape = shape[5,3,4]} # "y" : f32[5,3,4]
  %3 = reshape(%2) {sizes = sizes[15, -1]} : f32[15,4]
  %4 = reshape(%1, %2) {sizes = sizes[dim(0, 0), 1, dim(1, 1)]} : f32[?,1,3]
  %5 = broadcast(%1) {sizes = sizes[7, dim(0, 0), 3]} : f32[7,?,3]
  %6 = sum_to(%5, %1) {sizes = sizes[dim(1, 0), 3]} : f32[?,3]
  %7 = transpose(%2) {permutation = [2, 0, 1]} : f32[4,5,3]
  %8 = reduce_sum(%2) {axes = [1], keep_dims = true} : f32[5,1,4]
  %9 = reduce_mean(%2) {axes = [0, 2]} : f32[3]
  %10 = reduce_max(%1) {axes = [0]} : f32[3]
  %11 = reduce_min(%1) {axes = []} : f32[?,3]
  %12 = argmax(%2) {axis = 1} : i64[5,4]
  %13 = one_hot(%12) {depth = 3, dtype = f32} : f32[5,4,3]
  %14 = iota(%1) {sizes = sizes[dim(0, 0), 2], axis = 1, dtype = i32} : i32[?,2]
  %15 = random_uniform(%1) {sizes = sizes[dim(0, 0)], dtype = f32, low = -1.0, high = 1.0, seed = 7, stream = 0, fixed = false, same_on_all_replicas = true} : f32[?]
  %16 = random_normal() {sizes = sizes[2], dtype = bf16, mean = 0.0, deviation = 0.02} : bf16[2]
  %17 = placeholder() {dtype = i64, shape = shape[?]} # "ids" : i64[?]
  %18 = random_by_example(%17, %2) {sizes = sizes[6, dim(1, 1)], dtype = f32, distribution = "normal"} : f32[6,3]
}
---- same
==== random numbers of no distribution
graph build "g" {
  %1 = placeholder() {dtype = i64, shape = shape[?]} # "ids" : i64[?]
  %2 = random_by_example(%1) {sizes = sizes[6], dtype = f32, distribution = "even"} : f32[6]
}
---- INVALID_ARGUMENT
'distribution' is 'even', which is none of uniform, normal, truncated_normal
==== products and what stands around them
graph build "products" {
  %1 = placeholder() {dtype = f32, shape = shape[?,784]} # "x" : f32[?,784]
  %2 = placeholder() {dtype = f32, shape = shape[784,10]} # "w" : f32[784,10]
  %3 = placeholder() {dtype = f32, shape = shape[10]} # "b" : f32[10]
  %4 = placeholder() {dtype = i32, shape = shape[?]} # "labels" : i32[?]
  %5 = matmul(%1, %2) {transpose_a = false, transpose_b = false} : f32[?,10]
  %6 = matmul(%2, %1) {transpose_a = true, transpose_b = true} : f32[10,?]
  %7 = dense(%1, %2, %3) {activation = "relu"} : f32[?,10]
  %8 = dense(%1, %2) : f32[?,10]
  %9 = softmax(%7) : f32[?,10]
  %10 = log_softmax(%7) : f32[?,10]
  %11 = softmax_cross_entropy(%7, %4) : f32[?]
  %12 = softmax_cross_entropy_grad(%7, %4, %11) : f32[?,10]
}
---- same
==== gradients of another type than the logits
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[?,10]} # "x" : f32[?,10]
  %2 = placeholder() {dtype = i32, shape = shape[?]} # "labels" : i32[?]
  %3 = placeholder() {dtype = f64, shape = shape[?]} # "dy" : f64[?]
  %4 = softmax_cross_entropy_grad(%1, %2, %3) : f32[?,10]
}
---- INVALID_ARGUMENT
the rows' gradients are f64[?]
==== gradients of other rows than the logits'
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4,10]} # "x" : f32[4,10]
  %2 = placeholder() {dtype = i32, shape = shape[4]} # "labels" : i32[4]
  %3 = placeholder() {dtype = f32, shape = shape[3]} # "dy" : f32[3]
  %4 = softmax_cross_entropy_grad(%1, %2, %3) : f32[4,10]
}
---- INVALID_ARGUMENT
the rows' gradients are f32[3]
==== an absurd size is refused
graph build "g" {
  %1 = iota() {sizes = sizes[70368744177664, 70368744177664], axis = 0, dtype = i32} : i32[?,?]
}
---- INVALID_ARGUMENT
op iota at graph text:2
==== absurd sizes around the rest of a reshape
graph build "g" {
  %1 = constant() {value = f32[2] [1, 2]} : f32[2]
  %2 = reshape(%1) {sizes = sizes[70368744177664, 70368744177664, -1]} : f32[?,?,?]
}
---- INVALID_ARGUMENT
op reshape at graph text:3
