graph build "replicas" {
  %1 = constant() {value = f32[4] [1, 2, 3, 4]} # "a" : f32[4]
  %2:2 = replicate(%1, %1) {replicas = 2, num_split = 1, num_gathered = 1} # "replicate" (graph region "replica" {
    %1 = parameter() {dtype = f32, shape = shape[4], index = 0} # "x" : f32[4]
    %2 = reduce_scatter(%1) {reduce = "sum", axis = 0, replicas = 0} # "y" : f32[?]
    return %2
  }) : f32[?], f32[?]
}
