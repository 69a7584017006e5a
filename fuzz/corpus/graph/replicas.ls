graph build "replicas" {
  %1 = constant() {value = f32[] [1]} # "a" : f32[]
  %2:3 = replicate(%1, %1, %1) {replicas = 2, num_split = 1, num_gathered = 1} # "replicate" (graph region "replica" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} # "x" : f32[]
    %2 = parameter() {dtype = f32, shape = shape[], index = 1} # "capture" captures (%1) : f32[]
    %3 = all_reduce(%1) {reduce = "sum"} # "all_reduce" : f32[]
    return %1, %3
  }) : f32[], f32[], f32[]
}
