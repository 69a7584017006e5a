graph build "model" {
  %1 = placeholder() {dtype = f32, shape = shape[?,3]} # "x" : f32[?,3]
  %2 = constant() {value = f32[3,2] [1, 2, 3, 4, 5, 6]} # "dense/w" @"/device:CPU:0" : f32[3,2]
  %3 = matmul(%1, %2) {transpose_a = false, transpose_b = false} # "dense/matmul" : f32[?,2]
  %4 = reduce_sum(%3) ^%2 {axes = [0, 1], keep_dims = false} # "dense/reduce_sum" : f32[]
  %5 = no_op() ^%3 ^%4 # "group_deps"
  %6 = broadcast(%4, %3) {sizes = sizes[dim(1, 0), 2]} # "back" : f32[?,2]
  %7 = reshape(%6, %1) {sizes = sizes[dim(1, 0), -1]} # "rows" : f32[?,?]
}
