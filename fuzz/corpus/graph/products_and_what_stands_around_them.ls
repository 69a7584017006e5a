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
