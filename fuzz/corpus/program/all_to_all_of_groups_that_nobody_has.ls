graph build "replicas" {
  %1 = constant() {value = f32[4] [1, 2, 3, 4]} # "a" : f32[4]
  %2:2 = replicate(%1, %1) {replicas = 2, num_split = 1, num_gathered = 1} # "replicate" (graph region "replica" {
    %1 = parameter() {dtype = f32, shape = shape[4], index = 0} # "x" : f32[4]
    %2 = all_to_all(%1) {split_axis = 0, concat_axis = 0, replicas = 2, group_size = 2, groups = [7, -9]} # "y" : f32[4]
    return %2
  }) : f32[4], f32[4]
}
