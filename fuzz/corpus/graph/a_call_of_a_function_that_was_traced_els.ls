graph build "call" {
  %1 = constant() {value = f32[] [1]} # "a" : f32[]
  %2:2 = call(%1, %1) # "f" (graph function "f" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} # "x" : f32[]
    %2 = parameter() {dtype = f32, shape = shape[], index = 1} # "capture" captures (outer %99) : f32[]
    return %1, %2
  }) : f32[], f32[]
}
