// Convolutions and reductions over windows: shapes, and what is refused.
==== convolutions
graph build "convolutions" {
  %1 = placeholder() {dtype = f32, shape = shape[?,28,28,3]} # "x" : f32[?,28,28,3]
  %2 = placeholder() {dtype = f32, shape = shape[3,3,3,8]} # "w" : f32[3,3,3,8]
  %3 = placeholder() {dtype = f32, shape = shape[8]} # "b" : f32[8]
  %4 = convolution(%1, %2) : f32[?,26,26,8]
  %5 = convolution(%1, %2) {same = true, strides = [2, 3]} : f32[?,14,10,8]
  %6 = convolution(%1, %2) {dilations = [2, 1], padding = [1, 0, 0, 2]} : f32[?,25,28,8]
  %7 = convolution(%1, %2) {input_dilations = [2, 2]} : f32[?,53,53,8]
  %8 = conv_bias_act(%1, %2, %3) {activation = "relu", same = true} : f32[?,28,28,8]
  %9 = conv_grad_input(%8, %2, %1) {sizes = sizes[dim(2, 0), 28, 28, 3], same = true} : f32[?,28,28,3]
  %10 = conv_grad_weights(%1, %8) {sizes = sizes[3, 3, 3, 8], same = true} : f32[3,3,3,8]
}
---- same
==== groups, one and three dimensions, what is not known
graph build "more" {
  %1 = placeholder() {dtype = f64, shape = shape[2,9,6]} # "x" : f64[2,9,6]
  %2 = placeholder() {dtype = f64, shape = shape[3,2,9]} # "w" : f64[3,2,9]
  %3 = convolution(%1, %2) {groups = 3} : f64[2,7,9]
  %4 = placeholder() {dtype = bf16, shape = shape[1,?,4,?,2]} # "v" : bf16[1,?,4,?,2]
  %5 = placeholder() {dtype = bf16, shape = shape[2,2,?,2,5]} # "k" : bf16[2,2,?,2,5]
  %6 = convolution(%4, %5) {same = true, strides = [2, 2, 1]} : bf16[1,?,2,?,5]
  %7 = convolution(%4, %5) : bf16[1,?,3,?,5]
}
---- same
==== windows
graph build "windows" {
  %1 = placeholder() {dtype = f32, shape = shape[?,28,27,3]} # "x" : f32[?,28,27,3]
  %2 = reduce_window(%1) {reduce = "max", window = [2, 2], strides = [2, 2]} : f32[?,14,13,3]
  %3 = reduce_window(%1) {reduce = "mean", window = [2, 2], strides = [2, 2], same = true, count_padding = true} : f32[?,14,14,3]
  %4 = reduce_window(%1) {reduce = "sum", window = [3, 1], dilations = [2, 1], padding = [0, 1, 0, 0]} : f32[?,25,27,3]
  %5 = window_sum_grad(%4, %1) {reduce = "sum", window = [3, 1], dilations = [2, 1], padding = [0, 1, 0, 0], sizes = sizes[dim(1, 0), 28, 27, 3]} : f32[?,28,27,3]
  %6 = window_max_grad(%1, %2) {window = [2, 2], strides = [2, 2]} : f32[?,28,27,3]
  %7 = window_max_pick(%1, %6) {window = [2, 2], strides = [2, 2]} : f32[?,14,13,3]
}
---- same
==== weights of other channels
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,8,4]} # "x" : f32[1,8,4]
  %2 = placeholder() {dtype = f32, shape = shape[3,3,8]} # "w" : f32[3,3,8]
  %3 = convolution(%1, %2) : f32[1,6,8]
}
---- INVALID_ARGUMENT
convolution of f32[1,8,4] by weights f32[3,3,8] in 1 groups
==== dtypes that differ
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,8,4]} # "x" : f32[1,8,4]
  %2 = placeholder() {dtype = f64, shape = shape[3,4,8]} # "w" : f64[3,4,8]
  %3 = convolution(%1, %2) : f32[1,6,8]
}
---- INVALID_ARGUMENT
its operands are numbers of one dtype
==== padding that is negative
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,8,4]} # "x" : f32[1,8,4]
  %2 = reduce_window(%1) {reduce = "max", window = [2], padding = [-1, 0]} : f32[1,6,4]
}
---- INVALID_ARGUMENT
number 0 of 'padding' is -1, must be 0 to
==== a window that does not fit
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,8,4]} # "x" : f32[1,8,4]
  %2 = reduce_window(%1) {reduce = "max", window = [3], dilations = [4]} : f32[1,1,4]
}
---- INVALID_ARGUMENT
along spatial dimension 0 the window spans 9 elements, the input with its padding has 8
==== four spatial dimensions
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,2,2,2,2,1]} # "x" : f32[1,2,2,2,2,1]
  %2 = placeholder() {dtype = f32, shape = shape[1,1,1,1,1,1]} # "w" : f32[1,1,1,1,1,1]
  %3 = convolution(%1, %2) : f32[1,2,2,2,2,1]
}
---- INVALID_ARGUMENT
4 spatial dimensions; with a batch before and channels after them 1 to 3 are possible
==== numbers that are too large
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,35184372088832,1]} # "x" : f32[1,35184372088832,1]
  %2 = placeholder() {dtype = f32, shape = shape[1,1,1]} # "w" : f32[1,1,1]
  %3 = convolution(%1, %2) {input_dilations = [2147483648]} : f32[1,2,1]
}
---- INVALID_ARGUMENT
are more than is possible
==== another reduction
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,8,4]} # "x" : f32[1,8,4]
  %2 = reduce_window(%1) {reduce = "median", window = [3]} : f32[1,6,4]
}
---- INVALID_ARGUMENT
'reduce' is 'median', which is none of sum, mean, max
==== another activation
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1,8,4]} # "x" : f32[1,8,4]
  %2 = placeholder() {dtype = f32, shape = shape[3,4,8]} # "w" : f32[3,4,8]
  %3 = placeholder() {dtype = f32, shape = shape[8]} # "b" : f32[8]
  %4 = conv_bias_act(%1, %2, %3) {activation = "tanh"} : f32[1,6,8]
}
---- INVALID_ARGUMENT
'activation' is 'tanh', which is none of relu
==== convolutions and the maxima of their results
graph lowered "pools" {
  %1 = parameter() {dtype = f32, shape = shape[2,8,6,16], index = 0} : f32[2,8,6,16]
  %2 = parameter() {dtype = f32, shape = shape[3,3,16,32], index = 1} : f32[3,3,16,32]
  %3 = parameter() {dtype = f32, shape = shape[32], index = 2} : f32[32]
  %4:2 = conv_pool_max(%1, %2, %3) {same = true, activation = "relu"} : f32[2,4,3,32], u8[2,4,3,32]
  %5:2 = conv_pool_max(%1, %2) : f32[2,3,2,32], u8[2,3,2,32]
  %6 = conv_pool_grad_input(%4:0, %4:1, %2) {same = true, sizes = sizes[2, 8, 6, 16]} : f32[2,8,6,16]
  %7 = conv_pool_grad_weights(%1, %5:0, %5:1) {sizes = sizes[3, 3, 16, 32]} : f32[3,3,16,32]
  %8 = conv_pool_grad_input(%4:0, %4:1, %1, %2) {same = true, sizes = sizes[2, 8, 6, 16]} : f32[2,8,6,16]
  %9:2 = pool_max(%6) : f32[2,4,3,16], u8[2,4,3,16]
  return %7, %8, %9:0
}
---- same
==== only lowering joins them
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,8,6,16]} # "x" : f32[2,8,6,16]
  %2:2 = pool_max(%1) : f32[2,4,3,16], u8[2,4,3,16]
}
---- INVALID_ARGUMENT
only lowering makes this op
==== maxima of an odd height
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[2,7,6,16], index = 0} : f32[2,7,6,16]
  %2:2 = pool_max(%1) : f32[2,3,3,16], u8[2,3,3,16]
  return %2:0
}
---- same
==== maxima of no window
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[2,1,6,16], index = 0} : f32[2,1,6,16]
  %2:2 = pool_max(%1) : f32[2,0,3,16], u8[2,0,3,16]
  return %2:0
}
---- INVALID_ARGUMENT
pool_max of f32[2,1,6,16]: it is of f32[batch, height, width, channels]
==== taps of another number
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[2,8,6,16], index = 0} : f32[2,8,6,16]
  %2 = parameter() {dtype = f32, shape = shape[5,3,16,32], index = 1} : f32[5,3,16,32]
  %3:2 = conv_pool_max(%1, %2) {same = true} : f32[2,4,3,32], u8[2,4,3,32]
  return %3
}
---- INVALID_ARGUMENT
conv_pool_max by f32[5,3,16,32]: it takes 3 by 3 taps
==== a relu's result of another shape
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[2,8,6,16], index = 0} : f32[2,8,6,16]
  %2 = parameter() {dtype = f32, shape = shape[3,3,16,32], index = 1} : f32[3,3,16,32]
  %3:2 = conv_pool_max(%1, %2) {same = true} : f32[2,4,3,32], u8[2,4,3,32]
  %4 = conv_pool_grad_input(%3:0, %3:1, %3:0, %2) {same = true, sizes = sizes[2, 8, 6, 16]} : f32[2,8,6,16]
  return %4
}
---- INVALID_ARGUMENT
x is f32[2,8,6,16], the relu's result f32[2,4,3,32]
==== places of other maxima
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[2,8,6,16], index = 0} : f32[2,8,6,16]
  %2 = parameter() {dtype = f32, shape = shape[3,3,16,32], index = 1} : f32[3,3,16,32]
  %3:2 = conv_pool_max(%1, %2) : f32[2,3,2,32], u8[2,3,2,32]
  %4 = conv_pool_grad_input(%3:0, %3:1, %2) {same = true, sizes = sizes[2, 8, 6, 16]} : f32[2,8,6,16]
  return %4
}
---- INVALID_ARGUMENT
the maxima are f32[2,4,3,32], operand 0 is f32[2,3,2,32]
