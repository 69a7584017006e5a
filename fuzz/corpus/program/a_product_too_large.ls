graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[70368744177664,1]} # "x" : f32[70368744177664,1]
  %2 = matmul(%1, %1) {transpose_b = true} # "y" : f32[70368744177664,70368744177664]
}
