// Normalizations and attention, with the types that their shape rules give, and
// what the rules refuse.
==== normalization
graph build "norms" {
  %1 = placeholder() {dtype = f32, shape = shape[?,4,4,8]} # "x" : f32[?,4,4,8]
  %2 = placeholder() {dtype = f32, shape = shape[8]} # "scale" : f32[8]
  %3 = placeholder() {dtype = bf16, shape = shape[...]} # "y" : bf16[...]
  %4 = placeholder() {dtype = f32, shape = shape[?]} # "any" : f32[?]
  %5 = placeholder() {dtype = bf16, shape = shape[5,?]} # "z" : bf16[5,?]
  %6:3 = batch_norm(%1, %2, %2) {epsilon = 0.5, activation = "relu"} : f32[?,4,4,8], f32[8], f32[8]
  %7:3 = batch_norm(%3, %4, %2) {epsilon = 0.5} : bf16[...], f32[8], f32[8]
  %8:3 = batch_norm_grad(%6:0, %1, %2, %2, %6:1, %6:2) {epsilon = 0.5, activation = "relu"} : f32[?,4,4,8], f32[8], f32[8]
  %9 = batch_norm_inference(%5, %2, %4, %4, %4) {epsilon = 0.5} : bf16[5,8]
  %10 = layer_norm(%1, %4, %4) {epsilon = 0.5} : f32[?,4,4,8]
  %11:3 = layer_norm_grad(%10, %1, %4) {epsilon = 0.5} : f32[?,4,4,8], f32[8], f32[8]
  %12 = rms_norm(%5, %2) {epsilon = 0.5} : bf16[5,8]
  %13:2 = rms_norm_grad(%12, %5, %4) {epsilon = 0.5} : bf16[5,8], f32[8]
}
---- same
==== a norm's gradient that gives its result again
graph lowered "again" {
  %1 = parameter() {dtype = bf16, shape = shape[3,8], index = 0} : bf16[3,8]
  %2 = parameter() {dtype = f32, shape = shape[8], index = 1} : f32[8]
  %3:4 = layer_norm_again(%1, %1, %2, %2) {epsilon = 0.5} : bf16[3,8], bf16[3,8], f32[8], f32[8]
  return %3:1
}
---- same
==== attention
graph build "attention" {
  %1 = placeholder() {dtype = f32, shape = shape[?,5,8]} # "q" : f32[?,5,8]
  %2 = placeholder() {dtype = f32, shape = shape[3,?,?]} # "k" : f32[3,?,?]
  %3 = placeholder() {dtype = f32, shape = shape[...]} # "v" : f32[...]
  %4 = placeholder() {dtype = f32, shape = shape[?,5,24]} # "qkv" : f32[?,5,24]
  %5 = attention(%1, %2, %3) {num_heads = 4, causal = false} : f32[3,5,?]
  %6 = attention(%3, %2, %1) {num_heads = 4, causal = true} : f32[3,5,8]
  %7 = attention(%4) {num_heads = 4, causal = true, scale = 0.25} : f32[?,5,8]
  %8:3 = attention_grad(%5, %1, %2, %3) {num_heads = 4} : f32[?,5,8], f32[3,?,?], f32[...]
  %9 = attention_grad(%7, %4) {num_heads = 4, causal = true, scale = 0.25} : f32[?,5,24]
}
---- same
==== batch_norm of integers
graph build "g" {
  %1 = placeholder() {dtype = i32, shape = shape[2,3]} : i32[2,3]
  %2 = placeholder() {dtype = f32, shape = shape[3]} : f32[3]
  %3:3 = batch_norm(%1, %2, %2) {epsilon = 0.1} : f32[2,3], f32[3], f32[3]
}
---- INVALID_ARGUMENT
batch_norm takes floats with a last axis, got i32[2,3]
==== a scale for other channels
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3]} : f32[2,3]
  %2 = placeholder() {dtype = f32, shape = shape[4]} : f32[4]
  %3 = layer_norm(%1, %2, %2) {epsilon = 0.1} : f32[2,3]
}
---- INVALID_ARGUMENT
layer_norm of f32[2,3]: operand 1 must be f32[3], one for each of the last axis, is f32[4]
==== a scale of 16 bits
graph build "g" {
  %1 = placeholder() {dtype = bf16, shape = shape[2,3]} : bf16[2,3]
  %2 = placeholder() {dtype = bf16, shape = shape[3]} : bf16[3]
  %3 = rms_norm(%1, %2) {epsilon = 0.1} : bf16[2,3]
}
---- INVALID_ARGUMENT
operand 1 must be f32[3]
==== an epsilon below 0
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3]} : f32[2,3]
  %2 = placeholder() {dtype = f32, shape = shape[3]} : f32[3]
  %3 = rms_norm(%1, %2) {epsilon = -0.1} : f32[2,3]
}
---- INVALID_ARGUMENT
'epsilon' is -0.1, must be a finite number of at least 0
==== an activation that no norm has
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3]} : f32[2,3]
  %2 = placeholder() {dtype = f32, shape = shape[3]} : f32[3]
  %3:3 = batch_norm(%1, %2, %2) {epsilon = 0.1, activation = "tanh"} : f32[2,3], f32[3], f32[3]
}
---- INVALID_ARGUMENT
'activation' is 'tanh', which is none of relu
==== a gradient of another shape
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3]} : f32[2,3]
  %2 = placeholder() {dtype = f32, shape = shape[3]} : f32[3]
  %3:3 = layer_norm_grad(%2, %1, %2) {epsilon = 0.1} : f32[2,3], f32[3], f32[3]
}
---- INVALID_ARGUMENT
layer_norm_grad of f32[2,3]: the result's gradient is f32[3]
==== heads that do not divide the width
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3,8]} : f32[2,3,8]
  %2 = attention(%1, %1, %1) {num_heads = 3} : f32[2,3,8]
}
---- INVALID_ARGUMENT
attention by 3 heads of f32[2,3,8], f32[2,3,8]
==== a scale that the options of ls_attention have for the default
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3,8]} : f32[2,3,8]
  %2 = attention(%1, %1, %1) {num_heads = 2, scale = 0.0} : f32[2,3,8]
}
---- INVALID_ARGUMENT
attention has a scale of 0, with which all tokens weigh the same: without it the scale is 1 / sqrt(depth of a head)
==== causal attention to more tokens than there are queries
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3,8]} : f32[2,3,8]
  %2 = placeholder() {dtype = f32, shape = shape[2,4,8]} : f32[2,4,8]
  %3 = attention(%1, %2, %2) {num_heads = 2, causal = true} : f32[2,3,8]
}
---- INVALID_ARGUMENT
and causal q as long as k
==== two operands of attention
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3,8]} : f32[2,3,8]
  %2 = attention(%1, %1) {num_heads = 2} : f32[2,3,8]
}
---- INVALID_ARGUMENT
attention takes q, k and v, or one operand with all three, got 2 operands
==== so many heads that three times as many wrap around
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[2,3,24]} : f32[2,3,24]
  %2 = attention(%1) {num_heads = 6148914691236517206} : f32[2,3,8]
}
---- INVALID_ARGUMENT
attention by 6148914691236517206 heads of f32[2,3,24]
