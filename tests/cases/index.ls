// Ops that take parts, join, look up, scan and order, with the types that their
// shape rules give, and what the rules refuse.
==== parts and joins
graph build "parts" {
  %1 = placeholder() {dtype = f32, shape = shape[?,3,8]} # "x" : f32[?,3,8]
  %2 = placeholder() {dtype = f32, shape = shape[5,3,2]} # "y" : f32[5,3,2]
  %3 = placeholder() {dtype = i32, shape = shape[]} # "i" : i32[]
  %4 = constant() {value = f32[] [0]} : f32[]
  %5 = placeholder() {dtype = f32, shape = shape[...]} # "z" : f32[...]
  %6 = slice(%1) {starts = [0, 1, 0], limits = [-1, 3, 7], strides = [1, 1, 3]} : f32[?,2,3]
  %7 = slice(%5) {starts = [0, 1], limits = [4, -1], strides = [1, 1]} : f32[4,?]
  %8 = slice_grad(%6, %1) {starts = [0, 1, 0], limits = [-1, 3, 7], strides = [1, 1, 3]} : f32[?,3,8]
  %9 = dynamic_slice(%2, %3, %3, %3) {sizes = sizes[2, 3, 1]} : f32[2,3,1]
  %10 = dynamic_slice(%1, %3, %3, %3, %1) {sizes = sizes[dim(4, 0), 3, 1]} : f32[?,3,1]
  %11 = dynamic_update_slice(%2, %9, %3, %3, %3) : f32[5,3,2]
  %12 = pad(%1, %4) {low = [1, -1, 0], high = [0, 2, 0], interior = [0, 1, 0]} : f32[?,6,8]
  %13 = concatenate(%1, %2, %2) {axis = 2} : f32[5,3,12]
  %14 = concatenate(%1, %5) {axis = 0} : f32[?,3,8]
  %15:2 = split_like(%13, %1, %5) {axis = 2} : f32[5,3,8], f32[5,3,?]
  %16 = reverse(%1) {axes = [0, 2]} : f32[?,3,8]
}
---- same
==== lookups, scans and orders
graph build "lookups" {
  %1 = placeholder() {dtype = f32, shape = shape[100,4]} # "table" : f32[100,4]
  %2 = placeholder() {dtype = i32, shape = shape[?,7]} # "ids" : i32[?,7]
  %3 = gather(%1, %2) {axis = 0} : f32[?,7,4]
  %4 = gather(%1, %2) {axis = 1} : f32[100,?,7]
  %5 = scatter(%1, %2, %3) {combine = "add", axis = 0} : f32[100,4]
  %6 = take_along(%1, %2) {axis = 1} : f32[100,7]
  %7 = add_along(%1, %2, %6) {axis = 1} : f32[100,4]
  %8 = cumsum(%3) {axis = 1, exclusive = true, reverse = false} : f32[?,7,4]
  %9 = cumprod(%3) {axis = 2, exclusive = false, reverse = true} : f32[?,7,4]
  %10 = linear_scan(%3, %8) {axis = 0, reverse = false} : f32[?,7,4]
  %11:3 = sort(%1, %7) {axis = 0, descending = true} : f32[100,4], f32[100,4], i64[100,4]
  %12:2 = top_k(%1) {k = 2} : f32[100,2], i32[100,2]
  %13 = argmin(%1) {axis = 1} : i64[100]
  %14 = constant() {value = f32[] [0]} : f32[]
  %15 = clamp(%14, %1, %7) : f32[100,4]
  %16 = indexed_slices(%2, %3, %1) {sizes = sizes[dim(2, 0), 4]} : f32[100,4]
}
---- same
==== values that do not fit side by side
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[?,3]} # "x" : f32[?,3]
  %2 = placeholder() {dtype = f32, shape = shape[5,2]} # "y" : f32[5,2]
  %3 = concatenate(%1, %2) {axis = 0} : f32[?,3]
}
---- INVALID_ARGUMENT
concatenate along axis 0: operand 1 is f32[5,2], operand 0 is f32[?,3]; only the sizes along the axis may differ
==== a slice beyond the end
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = slice(%1) {starts = [1], limits = [5], strides = [1]} : f32[?]
}
---- INVALID_ARGUMENT
slice of f32[4]: axis 0 from 1 to 5 by 1
==== a slice that goes nowhere
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = slice(%1) {starts = [1], limits = [3], strides = [0]} : f32[?]
}
---- INVALID_ARGUMENT
number 0 of 'strides' is 0, must be at least 1
==== a slice with too few strides
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4,4]} # "x" : f32[4,4]
  %2 = slice(%1) {starts = [1, 1], limits = [3, 3], strides = [1]} : f32[?,?]
}
---- INVALID_ARGUMENT
slice: 'strides' has 1 numbers, 'starts' has 2
==== a dynamic slice that is larger
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = placeholder() {dtype = i64, shape = shape[]} # "i" : i64[]
  %3 = dynamic_slice(%1, %2) {sizes = sizes[5]} : f32[5]
}
---- INVALID_ARGUMENT
dynamic_slice of f32[4]: f32[5] is larger
==== a start that is a float
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = constant() {value = f32[] [0]} : f32[]
  %3 = dynamic_update_slice(%1, %1, %2) : f32[4]
}
---- INVALID_ARGUMENT
dynamic_update_slice: start 0 is f32[], must be an integer scalar
==== padding that leaves less than nothing
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = constant() {value = f32[] [0]} : f32[]
  %3 = pad(%1, %2) {low = [-3], high = [-2], interior = [0]} : f32[?]
}
---- INVALID_ARGUMENT
pad of f32[4]: axis 0 by -3 below, -2 above and 0 between
==== absurd padding
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = constant() {value = f32[] [0]} : f32[]
  %3 = pad(%1, %2) {low = [-9000000000000000000], high = [0], interior = [9000000000000000000]} : f32[?]
}
---- INVALID_ARGUMENT
number 0 of 'low' is -9000000000000000000, must be -70368744177664 to 70368744177664
==== padding that comes to little
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} : f32[4]
  %2 = placeholder() {dtype = f32, shape = shape[]} : f32[]
  %3 = pad(%1, %2) {low = [-9223372036854775808], high = [9223372036854775807], interior = [0]} : f32[3]
}
---- INVALID_ARGUMENT
number 0 of 'low' is -9223372036854775808, must be -70368744177664 to 70368744177664
==== more between single elements than there can be
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[1]} : f32[1]
  %2 = placeholder() {dtype = f32, shape = shape[]} : f32[]
  %3 = pad(%1, %2) {low = [0], high = [0], interior = [9223372036854775807]} : f32[1]
}
---- INVALID_ARGUMENT
number 0 of 'interior' is 9223372036854775807, must be 0 to 70368744177664
==== padding of another type
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = constant() {value = i32[] [0]} : i32[]
  %3 = pad(%1, %2) {low = [1], high = [0], interior = [0]} : f32[?]
}
---- INVALID_ARGUMENT
pad of f32[4] by i32[]: the value must be a scalar of the same dtype
==== pieces that are too long
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = placeholder() {dtype = f32, shape = shape[3]} # "y" : f32[3]
  %3:2 = split_like(%1, %2, %2) {axis = 0} : f32[3], f32[3]
}
---- INVALID_ARGUMENT
split_like of f32[4]: the pieces' sizes along axis 0 make 6
==== an axis twice
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = reverse(%1) {axes = [0, 0]} : f32[4]
}
---- INVALID_ARGUMENT
reverse of f32[4]: axis 0 is out of range or there twice
==== indices that are floats
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = gather(%1, %1) {axis = 0} : f32[4]
}
---- INVALID_ARGUMENT
gather: indices are integers, got f32[4]
==== updates of another shape
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4,2]} # "x" : f32[4,2]
  %2 = placeholder() {dtype = i64, shape = shape[3]} # "i" : i64[3]
  %3 = scatter(%1, %2, %1) {combine = "add", axis = 0} : f32[4,2]
}
---- INVALID_ARGUMENT
scatter into f32[4,2] by i64[3]: the updates must be f32[3,2], are f32[4,2]
==== a scatter that there is not
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = placeholder() {dtype = i64, shape = shape[3]} # "i" : i64[3]
  %3 = scatter(%1, %2, %1) {combine = "xor", axis = 0} : f32[4]
}
---- INVALID_ARGUMENT
'combine' is 'xor', which is none of update, add, sub, mul, div, min, max
==== lines that do not match
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4,2]} # "x" : f32[4,2]
  %2 = placeholder() {dtype = i64, shape = shape[3,2]} # "i" : i64[3,2]
  %3 = take_along(%1, %2) {axis = 1} : f32[4,2]
}
---- INVALID_ARGUMENT
take_along of f32[4,2] by i64[3,2]: only the sizes along axis 1 may differ
==== a scan along no axis
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = cumsum(%1) {axis = 1} : f32[4]
}
---- INVALID_ARGUMENT
cumsum of f32[4] along axis 1
==== more than there is
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2:2 = top_k(%1) {k = 5} : f32[5], i32[5]
}
---- INVALID_ARGUMENT
top_k of f32[4] with k 5
==== what is sorted along
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = placeholder() {dtype = f32, shape = shape[5]} # "y" : f32[5]
  %3:3 = sort(%1, %2) {axis = 0} : f32[4], f32[4], i64[4]
}
---- INVALID_ARGUMENT
sort of f32[4]: what is carried along must be
==== a bound of another shape
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[4]} # "x" : f32[4]
  %2 = placeholder() {dtype = f32, shape = shape[5]} # "y" : f32[5]
  %3 = clamp(%2, %1, %1) : f32[4]
}
---- INVALID_ARGUMENT
clamp of f32[4]: a bound is f32[5], must be a scalar or as large
