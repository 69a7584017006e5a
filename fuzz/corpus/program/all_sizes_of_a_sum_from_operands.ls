graph function "g" {
  %1 = parameter() {dtype = f32, shape = shape[2,1,1,1,1,1,1,3], index = 0} # "x" : f32[2,1,1,1,1,1,1,3]
  %2 = parameter() {dtype = f32, shape = shape[?], index = 1} # "z" : f32[?]
  %3 = sum_to(%1, %2, %2, %2, %2, %2, %2, %2, %2) {sizes = sizes[dim(1, 0), dim(2, 0), dim(3, 0), dim(4, 0), dim(5, 0), dim(6, 0), dim(7, 0), dim(8, 0)]} # "y" : f32[?,?,?,?,?,?,?,?]
  return %3
}
