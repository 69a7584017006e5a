graph function "g" {
  %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "x" : f32[?]
  %2 = broadcast(%1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1) {sizes = sizes[dim(1, 0)]} # "y" : f32[?]
  return %2
}
