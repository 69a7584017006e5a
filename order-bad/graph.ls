variable @"global_step" : i64[] initializer %3
variable @"tpu_estimator/iterations_per_loop" : i32[] initializer %6
variable @"w" : f32[6,1] trainable initializer %23
graph build "estimator" {
  %1 = constant() {value = i64[] [0]} # "global_step/constant" : i64[]
  %2 = broadcast(%1) {sizes = sizes[]} # "global_step/broadcast" : i64[]
  %3 = assign(%2) {variable = @"global_step"} # "global_step/initializer" : i64[]
  %4 = constant() {value = i32[] [0]} # "tpu_estimator/iterations_per_loop/constant" : i32[]
  %5 = broadcast(%4) {sizes = sizes[]} # "tpu_estimator/iterations_per_loop/broadcast" : i32[]
  %6 = assign(%5) {variable = @"tpu_estimator/iterations_per_loop", _class = strings["loc:@global_step"]} # "tpu_estimator/iterations_per_loop/initializer" : i32[]
  %7 = read_variable() {variable = @"tpu_estimator/iterations_per_loop"} # "read_variable" @"/job:worker/task:0/device:CPU:0" : i32[]
  %8 = identity(%7) # "identity" @"/job:worker/task:0/device:CPU:0" : i32[]
  %9 = constant() {value = i32[] [0]} # "constant" @"/job:worker/task:0/device:CPU:0" : i32[]
  %10 = while(%9, %8) {num_carried = 1, max_trips = 0} # "while" @"/job:worker/task:0/device:CPU:0" (graph region "while_condition" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} # "parameter" : i32[]
    %2 = parameter() {dtype = i32, shape = shape[], index = 1} # "capture" captures (%8) : i32[]
    %3 = less(%1, %2) # "less" : bool[]
    return %3
  }, graph region "while_body" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} # "parameter" : i32[]
    %2:2 = host() {kernel = kernel "iterator_get_next", state = object "iterator"} # "iterator_get_next" : f32[24,6], i32[24]
    %3 = host(%2:0, %2:1) {kernel = kernel "infeed_enqueue", state = object "feed"} # "InfeedQueue/enqueue/0" @"/job:worker/task:0/device:CPU:0"
    %4 = host(%2:0, %2:1) {kernel = kernel "infeed_enqueue", state = object "feed"} # "InfeedQueue/enqueue/1" @"/job:worker/task:0/device:CPU:0"
    %5 = host(%2:0, %2:1) {kernel = kernel "infeed_enqueue", state = object "feed"} # "InfeedQueue/enqueue/2" @"/job:worker/task:0/device:CPU:0"
    %6 = constant() ^%3 ^%4 ^%5 {value = i32[] [1]} # "constant" : i32[]
    %7 = add(%1, %6) # "add" : i32[]
    return %7
  }) : i32[]
  %11 = host() {kernel = kernel "infeed_close", state = object "feed"} # "infeed_close" @"/job:worker/task:0/device:CPU:0"
  %12 = host() {kernel = kernel "infeed_close", state = object "feed"} # "infeed_close_1" @"/job:worker/task:0/device:CPU:0"
  %13 = host() {kernel = kernel "infeed_close", state = object "feed"} # "infeed_close_2" @"/job:worker/task:0/device:CPU:0"
  %14 = no_op() {_pivot_for_cluster = "cluster"} # "cluster/pivot"
  %15 = tpu_replicate_metadata() ^%14 {num_replicas = 3, use_tpu = true, num_cores_per_replica = 1, topology = "", device_assignment = [], host_compute_core = strings[], step_marker_location = "STEP_MARK_AT_TOP_LEVEL_WHILE_LOOP", allow_soft_placement = false, use_spmd = true, _tpu_replicate = "cluster", _tpu_system = "virtual:3x1,cores=1", _tpu_job = "worker", _tpu_mesh = [3, 1, 1, 1, 1]} # "tpu_replicate_metadata"
  %16 = read_variable() ^%15 {variable = @"tpu_estimator/iterations_per_loop", _tpu_replicate = "cluster"} # "read_variable_1" : i32[]
  %17 = convert(%16) {dtype = i64, _tpu_replicate = "cluster"} # "convert" : i64[]
  %18 = constant() ^%15 {value = i64[] [0], _tpu_replicate = "cluster"} # "constant_1" : i64[]
  %19 = constant() ^%15 {value = f64[] [1e+07], _tpu_replicate = "cluster"} # "constant_2" : f64[]
  %20 = constant() ^%15 {value = i64[] [1], _tpu_replicate = "cluster"} # "constant_3" : i64[]
  %21 = constant() ^%15 {value = i32[] [0], _tpu_replicate = "cluster"} # "constant_4" : i32[]
  %22 = random_uniform() {dtype = f32, sizes = sizes[6, 1], low = -0.9258200997725514, high = 0.9258200997725514, seed = 0, stream = 5019115514490631486, fixed = true, same_on_all_replicas = true} # "w/random_uniform" : f32[6,1]
  %23 = assign(%22) {variable = @"w"} # "w/initializer" : f32[6,1]
  %24:2 = while(%18, %19, %17) {num_carried = 2, max_trips = 0, counts_steps = true, _tpu_replicate = "cluster"} # "while_1" (graph region "while_condition" loop {
    %1 = parameter() {dtype = i64, shape = shape[], index = 0} # "parameter" : i64[]
    %2 = parameter() {dtype = f64, shape = shape[], index = 1} # "parameter_1" : f64[]
    %3 = parameter() {dtype = i64, shape = shape[], index = 2} # "capture" captures (%17) : i64[]
    %4 = less(%1, %3) {_tpu_replicate = "cluster"} # "less" : bool[]
    %5 = host(%4) {kernel = kernel "infeed_ready", state = object "feed", _tpu_replicate = "cluster"} # "infeed_ready" @"/device:TPU_REPLICATED_CORE:0" : i32[]
    %6 = constant() {value = i32[] [0], _tpu_replicate = "cluster"} # "constant" @"/device:TPU_REPLICATED_CORE:0" : i32[]
    %7 = all_reduce(%5) {reduce = "min", _tpu_replicate = "cluster"} # "all_reduce" @"/device:TPU_REPLICATED_CORE:0" : i32[]
    %8 = greater(%7, %6) {_tpu_replicate = "cluster"} # "greater" @"/device:TPU_REPLICATED_CORE:0" : bool[]
    return %8
  }, graph region "while_body" loop {
    %1 = parameter() {dtype = i64, shape = shape[], index = 0} # "parameter" : i64[]
    %2 = parameter() {dtype = f64, shape = shape[], index = 1} # "parameter_1" : f64[]
    %3:2 = host() {kernel = kernel "infeed_dequeue", state = object "feed", _tpu_replicate = "cluster"} # "InfeedQueue/dequeue" @"/device:TPU_REPLICATED_CORE:0" : f32[24,6], i32[24]
    %4 = read_variable() {variable = @"w", _tpu_replicate = "cluster"} # "read_variable" : f32[6,1]
    %5 = matmul(%3:0, %4) {transpose_a = false, transpose_b = false, _tpu_replicate = "cluster"} # "matmul" : f32[24,1]
    %6 = reduce_mean(%5) {axes = [0, 1], keep_dims = false, _tpu_replicate = "cluster"} # "reduce_mean" : f32[]
    %7 = constant() {value = f32[] [1], _tpu_replicate = "cluster"} # "gradients/constant" : f32[]
    %8 = broadcast(%7) {sizes = sizes[], _tpu_replicate = "cluster"} # "gradients/broadcast" : f32[]
    %9 = identity(%8) {_tpu_replicate = "cluster"} # "gradients/grad_ys_0" : f32[]
    %10 = dim_size(%5) {axis = 0, _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/dim_size" : i64[]
    %11 = dim_size(%5) {axis = 1, _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/dim_size_1" : i64[]
    %12 = mul(%10, %11) {_tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/mul" : i64[]
    %13 = constant() {value = f32[] [1], _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/constant" : f32[]
    %14 = convert(%12) {dtype = f32, _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/convert" : f32[]
    %15 = div(%13, %14) {_tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/div" : f32[]
    %16 = mul(%9, %15) {_tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/mul_1" : f32[]
    %17 = reshape(%16, %5) {sizes = sizes[1, 1], _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/reshape" : f32[1,1]
    %18 = broadcast(%17) {sizes = sizes[24, 1], _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/broadcast" : f32[24,1]
    %19 = matmul(%3:0, %18) {transpose_a = true, transpose_b = false, _tpu_replicate = "cluster"} # "gradients/matmul_grad/matmul" : f32[6,1]
    %20 = cross_replica_sum(%19) {reduce = "sum", replicas = 3, _class = strings["loc:@gradients/matmul_grad/matmul"], _tpu_replicate = "cluster"} # "sgd/cross_replica_sum" : f32[6,1]
    %21 = constant() {value = f32[] [0.33333334], _class = strings["loc:@gradients/matmul_grad/matmul"], _tpu_replicate = "cluster"} # "sgd/constant" : f32[]
    %22 = mul(%20, %21) {_class = strings["loc:@gradients/matmul_grad/matmul"], _tpu_replicate = "cluster"} # "sgd/mul" : f32[6,1]
    %23 = read_variable() {variable = @"w", _tpu_replicate = "cluster"} # "sgd/read_variable" : f32[6,1]
    %24 = constant() {value = f32[] [0.1], _tpu_replicate = "cluster"} # "sgd/constant_1" : f32[]
    %25 = mul(%22, %24) {_tpu_replicate = "cluster"} # "sgd/mul_1" : f32[6,1]
    %26 = sub(%23, %25) {_tpu_replicate = "cluster"} # "sgd/sub" : f32[6,1]
    %27 = assign(%26) {variable = @"w", _tpu_replicate = "cluster"} # "sgd/assign" : f32[6,1]
    %28 = no_op() ^%27 {_tpu_replicate = "cluster"} # "sgd/sgd"
    %29 = constant() {value = i64[] [1], _tpu_replicate = "cluster"} # "constant" : i64[]
    %30 = assign_add(%29) {variable = @"global_step", _tpu_replicate = "cluster"} # "assign_add" : i64[]
    %31 = no_op() ^%28 ^%30 {_tpu_replicate = "cluster"} # "train_op"
    %32 = identity(%6) ^%31 {_tpu_replicate = "cluster"} # "identity" : f32[]
    %33 = convert(%32) {dtype = f64, _tpu_replicate = "cluster"} # "convert" : f64[]
    %34 = constant() {value = i64[] [1], _tpu_replicate = "cluster"} # "constant_1" : i64[]
    %35 = add(%1, %34) {_tpu_replicate = "cluster"} # "add" : i64[]
    %36 = identity(%35) ^%3 {_tpu_replicate = "cluster"} # "identity_1" : i64[]
    %37 = identity(%33) ^%3 {_tpu_replicate = "cluster"} # "identity_2" : f64[]
    %38 = identity(%1) ^%3 {_tpu_replicate = "cluster"} # "identity_3" : i64[]
    return %36, %37
  }) : i64[], f64[]
  %25 = convert(%24:1) {dtype = f32, _tpu_replicate = "cluster"} # "convert_1" : f32[]
  %26 = all_reduce(%25) {reduce = "mean", _tpu_replicate = "cluster"} # "all_reduce" : f32[]
  %27 = identity(%24:0) {_tpu_replicate = "cluster"} # "identity_1" @"/device:TPU_REPLICATED_CORE:0" : i64[]
  %28 = identity(%26) {_tpu_replicate = "cluster"} # "identity_2" @"/device:TPU_REPLICATED_CORE:0" : f32[]
  %29 = no_op() ^%15 {_tpu_replicate = "cluster"} # "no_op"
  %30:3 = tpu_replicated_output(%27) {num_replicas = 3} # "output0" : i64[], i64[], i64[]
  %31 = identity(%30:0) ^%29 # "output_0_shard_0" : i64[]
  %32 = identity(%30:1) ^%29 # "output_0_shard_1" : i64[]
  %33 = identity(%30:2) ^%29 # "output_0_shard_2" : i64[]
  %34:3 = tpu_replicated_output(%28) {num_replicas = 3} # "output1" : f32[], f32[], f32[]
  %35 = identity(%34:0) ^%29 # "output_1_shard_0" : f32[]
  %36 = identity(%34:1) ^%29 # "output_1_shard_1" : f32[]
  %37 = identity(%34:2) ^%29 # "output_1_shard_2" : f32[]
  %38 = tpu_compilation_result() ^%15 {_tpu_compilation_status = "cluster"} # "tpu_compilation_result" : string[]
  %39 = no_op() ^%31 # "no_op_1"
  %40 = no_op() ^%39 ^%31 # "group_deps"
  %41 = host(%31) {kernel = kernel "has_steps"} # "has_steps"
  %42 = identity(%35) ^%41 # "identity_3" : f32[]
  %43 = host(%42) {kernel = kernel "summary", state = object "summary"} # "summary"
  %44 = read_variable() {variable = @"global_step"} # "read_variable_2" : i64[]
  %45 = read_variable() {variable = @"global_step"} # "read_variable_3" : i64[]
  %46 = read_variable() {variable = @"global_step"} # "read_variable_4" : i64[]
  %47 = no_op() ^%43 # "summaries"
  %48 = read_variable() {variable = @"tpu_estimator/iterations_per_loop"} # "read_variable_5" : i32[]
  %49 = shutdown_distributed_tpu() {kernel = kernel "shutdown_distributed_tpu", state = object "system's job"} # "shutdown_distributed_tpu" @"/job:worker/device:TPU_SYSTEM:0"
  %50 = no_op() ^%3 ^%23 # "init"
  %51 = no_op() ^%6 # "local_init"
  %52 = is_variable_initialized() {variable = @"global_step"} # "report_uninitialized_variables/is_variable_initialized" : bool[]
  %53 = is_variable_initialized() {variable = @"w"} # "report_uninitialized_variables/is_variable_initialized_1" : bool[]
  %54 = is_variable_initialized() {variable = @"tpu_estimator/iterations_per_loop"} # "report_uninitialized_variables/is_variable_initialized_2" : bool[]
  %55 = host(%52, %53, %54) {kernel = kernel "report_uninitialized_variables", state = object "names"} # "report_uninitialized_variables/report_uninitialized_variables" : string[3]
  %56 = is_variable_initialized() {variable = @"global_step"} # "report_uninitialized_global_variables/is_variable_initialized" : bool[]
  %57 = is_variable_initialized() {variable = @"w"} # "report_uninitialized_global_variables/is_variable_initialized_1" : bool[]
  %58 = host(%56, %57) {kernel = kernel "report_uninitialized_variables", state = object "names"} # "report_uninitialized_global_variables/report_uninitialized_variables" : string[2]
  %59 = no_op() ^%43 # "merge_all_summaries"
}
collection "variables" = @"global_step", @"w"
collection "global_step" = @"global_step"
collection "tpu_estimator_iterations_per_loop" = @"tpu_estimator/iterations_per_loop"
collection "local_variables" = @"tpu_estimator/iterations_per_loop"
collection "trainable_variables" = @"w"
collection "_tpu_enqueue_ops" = op %10
collection "_tpu_train_op" = op %40
collection "summaries" = op %43
