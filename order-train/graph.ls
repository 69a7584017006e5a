variable @"global_step" : i64[] initializer %3
variable @"tpu_estimator/iterations_per_loop" : i32[] initializer %6
variable @"hidden" : f32[6,8] trainable initializer %22
variable @"out" : f32[8,3] trainable initializer %24
variable @"hidden/momentum" : f32[6,8] initializer %27
variable @"out/momentum" : f32[8,3] initializer %30
graph build "estimator" {
  %1 = constant() {value = i64[] [0]} # "global_step/constant" : i64[]
  %2 = broadcast(%1) {sizes = sizes[]} # "global_step/broadcast" : i64[]
  %3 = assign(%2) {variable = @"global_step"} # "global_step/initializer" : i64[]
  %4 = constant() {value = i32[] [0]} # "tpu_estimator/iterations_per_loop/constant" : i32[]
  %5 = broadcast(%4) {sizes = sizes[]} # "tpu_estimator/iterations_per_loop/broadcast" : i32[]
  %6 = assign(%5) {variable = @"tpu_estimator/iterations_per_loop", _class = strings["loc:@global_step"]} # "tpu_estimator/iterations_per_loop/initializer" : i32[]
  %7 = read_variable() {variable = @"tpu_estimator/iterations_per_loop"} # "input_pipeline_task0/read_variable" @"/job:worker/task:0/device:CPU:0" : i32[]
  %8 = identity(%7) # "input_pipeline_task0/identity" @"/job:worker/task:0/device:CPU:0" : i32[]
  %9 = constant() {value = i32[] [0]} # "input_pipeline_task0/constant" @"/job:worker/task:0/device:CPU:0" : i32[]
  %10 = while(%9, %8) {num_carried = 1, max_trips = 0} # "input_pipeline_task0/while" @"/job:worker/task:0/device:CPU:0" (graph region "while_condition" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} # "parameter" : i32[]
    %2 = parameter() {dtype = i32, shape = shape[], index = 1} # "capture" captures (%8) : i32[]
    %3 = less(%1, %2) # "less" : bool[]
    return %3
  }, graph region "while_body" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} # "parameter" : i32[]
    %2:2 = host() {kernel = kernel "iterator_get_next", state = object "iterator"} # "iterator_get_next" : f32[24,6], i32[24]
    %3 = constant() {value = f32[] [0]} # "InfeedQueue/split/constant" : f32[]
    %4 = broadcast(%3) {sizes = sizes[12, 6]} # "InfeedQueue/split/broadcast" : f32[12,6]
    %5:2 = split_like(%2:0, %4, %4) {axis = 0} # "InfeedQueue/split/0" : f32[12,6], f32[12,6]
    %6 = constant() {value = i32[] [0]} # "InfeedQueue/split/constant_1" : i32[]
    %7 = broadcast(%6) {sizes = sizes[12]} # "InfeedQueue/split/broadcast_1" : i32[12]
    %8:2 = split_like(%2:1, %7, %7) {axis = 0} # "InfeedQueue/split/1" : i32[12], i32[12]
    %9 = host(%5:0, %8:0) {kernel = kernel "infeed_enqueue", state = object "feed"} # "InfeedQueue/enqueue/0" @"/job:worker/task:0/device:CPU:0"
    %10 = host(%5:1, %8:1) {kernel = kernel "infeed_enqueue", state = object "feed"} # "InfeedQueue/enqueue/1" @"/job:worker/task:0/device:CPU:0"
    %11 = constant() ^%9 ^%10 {value = i32[] [1]} # "constant" : i32[]
    %12 = add(%1, %11) # "add" : i32[]
    return %12
  }) : i32[]
  %11 = host() {kernel = kernel "infeed_close", state = object "feed"} # "infeed_close" @"/job:worker/task:0/device:CPU:0"
  %12 = host() {kernel = kernel "infeed_close", state = object "feed"} # "infeed_close_1" @"/job:worker/task:0/device:CPU:0"
  %13 = no_op() {_pivot_for_cluster = "cluster"} # "cluster/pivot"
  %14 = tpu_replicate_metadata() ^%13 {num_replicas = 2, use_tpu = true, num_cores_per_replica = 1, topology = "", device_assignment = [], host_compute_core = strings[], step_marker_location = "STEP_MARK_AT_TOP_LEVEL_WHILE_LOOP", allow_soft_placement = false, use_spmd = true, _tpu_replicate = "cluster", _tpu_system = "virtual:2x1,cores=1", _tpu_job = "worker", _tpu_mesh = [2, 1, 1, 1, 1]} # "tpu_replicate_metadata"
  %15 = read_variable() ^%14 {variable = @"tpu_estimator/iterations_per_loop", _tpu_replicate = "cluster"} # "read_variable" : i32[]
  %16 = convert(%15) {dtype = i64, _tpu_replicate = "cluster"} # "convert" : i64[]
  %17 = constant() ^%14 {value = i64[] [0], _tpu_replicate = "cluster"} # "constant" : i64[]
  %18 = constant() ^%14 {value = f64[] [1e+07], _tpu_replicate = "cluster"} # "constant_1" : f64[]
  %19 = constant() ^%14 {value = i64[] [1], _tpu_replicate = "cluster"} # "constant_2" : i64[]
  %20 = constant() ^%14 {value = i32[] [0], _tpu_replicate = "cluster"} # "constant_3" : i32[]
  %21 = random_uniform() {dtype = f32, sizes = sizes[6, 8], low = -0.6546536707079771, high = 0.6546536707079771, seed = 0, stream = 6630380596742137189, fixed = true, same_on_all_replicas = true} # "hidden/random_uniform" : f32[6,8]
  %22 = assign(%21) {variable = @"hidden"} # "hidden/initializer" : f32[6,8]
  %23 = random_uniform() {dtype = f32, sizes = sizes[8, 3], low = -0.7385489458759964, high = 0.7385489458759964, seed = 0, stream = 7491410527766798447, fixed = true, same_on_all_replicas = true} # "out/random_uniform" : f32[8,3]
  %24 = assign(%23) {variable = @"out"} # "out/initializer" : f32[8,3]
  %25 = constant() {value = f32[] [0]} # "hidden/momentum/constant" : f32[]
  %26 = broadcast(%25) {sizes = sizes[6, 8]} # "hidden/momentum/broadcast" : f32[6,8]
  %27 = assign(%26) {variable = @"hidden/momentum"} # "hidden/momentum/initializer" : f32[6,8]
  %28 = constant() {value = f32[] [0]} # "out/momentum/constant" : f32[]
  %29 = broadcast(%28) {sizes = sizes[8, 3]} # "out/momentum/broadcast" : f32[8,3]
  %30 = assign(%29) {variable = @"out/momentum"} # "out/momentum/initializer" : f32[8,3]
  %31:2 = while(%17, %18, %16) {num_carried = 2, max_trips = 0, counts_steps = true, _tpu_replicate = "cluster"} # "while" (graph region "while_condition" loop {
    %1 = parameter() {dtype = i64, shape = shape[], index = 0} # "parameter" : i64[]
    %2 = parameter() {dtype = f64, shape = shape[], index = 1} # "parameter_1" : f64[]
    %3 = parameter() {dtype = i64, shape = shape[], index = 2} # "capture" captures (%16) : i64[]
    %4 = less(%1, %3) {_tpu_replicate = "cluster"} # "less" : bool[]
    %5 = host(%4) {kernel = kernel "infeed_ready", state = object "feed", _tpu_replicate = "cluster"} # "infeed_ready" @"/device:TPU_REPLICATED_CORE:0" : i32[]
    %6 = constant() {value = i32[] [0], _tpu_replicate = "cluster"} # "constant" @"/device:TPU_REPLICATED_CORE:0" : i32[]
    %7 = all_reduce(%5) {reduce = "min", _tpu_replicate = "cluster"} # "all_reduce" @"/device:TPU_REPLICATED_CORE:0" : i32[]
    %8 = greater(%7, %6) {_tpu_replicate = "cluster"} # "greater" @"/device:TPU_REPLICATED_CORE:0" : bool[]
    return %8
  }, graph region "while_body" loop {
    %1 = parameter() {dtype = i64, shape = shape[], index = 0} # "parameter" : i64[]
    %2 = parameter() {dtype = f64, shape = shape[], index = 1} # "parameter_1" : f64[]
    %3:2 = host() {kernel = kernel "infeed_dequeue", state = object "feed", _tpu_replicate = "cluster"} # "InfeedQueue/dequeue" @"/device:TPU_REPLICATED_CORE:0" : f32[12,6], i32[12]
    %4 = read_variable() {variable = @"out", _tpu_replicate = "cluster"} # "read_variable" : f32[8,3]
    %5 = read_variable() {variable = @"hidden", _tpu_replicate = "cluster"} # "read_variable_1" : f32[6,8]
    %6 = matmul(%3:0, %5) {transpose_a = false, transpose_b = false, _tpu_replicate = "cluster"} # "matmul" : f32[12,8]
    %7 = relu(%6) {_tpu_replicate = "cluster"} # "relu" : f32[12,8]
    %8 = matmul(%7, %4) {transpose_a = false, transpose_b = false, _tpu_replicate = "cluster"} # "matmul_1" : f32[12,3]
    %9 = argmax(%8) {axis = 1, _tpu_replicate = "cluster"} # "argmax" : i64[12]
    %10 = softmax_cross_entropy(%8, %3:1) {_tpu_replicate = "cluster"} # "softmax_cross_entropy" : f32[12]
    %11 = reduce_mean(%10) {axes = [0], keep_dims = false, _tpu_replicate = "cluster"} # "reduce_mean" : f32[]
    %12 = constant() {value = f32[] [1], _tpu_replicate = "cluster"} # "gradients/constant" : f32[]
    %13 = broadcast(%12) {sizes = sizes[], _tpu_replicate = "cluster"} # "gradients/broadcast" : f32[]
    %14 = identity(%13) {_tpu_replicate = "cluster"} # "gradients/grad_ys_0" : f32[]
    %15 = dim_size(%10) {axis = 0, _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/dim_size" : i64[]
    %16 = constant() {value = f32[] [1], _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/constant" : f32[]
    %17 = convert(%15) {dtype = f32, _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/convert" : f32[]
    %18 = div(%16, %17) {_tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/div" : f32[]
    %19 = mul(%14, %18) {_tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/mul" : f32[]
    %20 = reshape(%19, %10) {sizes = sizes[1], _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/reshape" : f32[1]
    %21 = broadcast(%20) {sizes = sizes[12], _tpu_replicate = "cluster"} # "gradients/reduce_mean_grad/broadcast" : f32[12]
    %22 = softmax_cross_entropy_grad(%8, %3:1, %21) {_tpu_replicate = "cluster"} # "gradients/softmax_cross_entropy_grad/softmax_cross_entropy_grad" : f32[12,3]
    %23 = matmul(%7, %22) {transpose_a = true, transpose_b = false, _tpu_replicate = "cluster"} # "gradients/matmul_1_grad/matmul" : f32[8,3]
    %24 = matmul(%22, %4) {transpose_a = false, transpose_b = true, _tpu_replicate = "cluster"} # "gradients/matmul_1_grad/matmul_1" : f32[12,8]
    %25 = relu_grad(%24, %7) {_tpu_replicate = "cluster"} # "gradients/relu_grad/relu_grad" : f32[12,8]
    %26 = matmul(%3:0, %25) {transpose_a = true, transpose_b = false, _tpu_replicate = "cluster"} # "gradients/matmul_grad/matmul" : f32[6,8]
    %27 = cross_replica_sum(%26) {reduce = "sum", replicas = 2, _class = strings["loc:@gradients/matmul_grad/matmul"], _tpu_replicate = "cluster"} # "momentum/cross_replica_sum" : f32[6,8]
    %28 = constant() {value = f32[] [0.5], _class = strings["loc:@gradients/matmul_grad/matmul"], _tpu_replicate = "cluster"} # "momentum/constant" : f32[]
    %29 = mul(%27, %28) {_class = strings["loc:@gradients/matmul_grad/matmul"], _tpu_replicate = "cluster"} # "momentum/mul" : f32[6,8]
    %30 = read_variable() {variable = @"hidden", _tpu_replicate = "cluster"} # "momentum/read_variable" : f32[6,8]
    %31 = read_variable() {variable = @"hidden/momentum", _tpu_replicate = "cluster"} # "momentum/read_variable_1" : f32[6,8]
    %32 = constant() {value = f32[] [0.9], _tpu_replicate = "cluster"} # "momentum/constant_1" : f32[]
    %33 = mul(%31, %32) {_tpu_replicate = "cluster"} # "momentum/mul_1" : f32[6,8]
    %34 = add(%33, %29) {_tpu_replicate = "cluster"} # "momentum/add" : f32[6,8]
    %35 = assign(%34) {variable = @"hidden/momentum", _tpu_replicate = "cluster"} # "momentum/assign" : f32[6,8]
    %36 = constant() {value = f32[] [0.1], _tpu_replicate = "cluster"} # "momentum/constant_2" : f32[]
    %37 = mul(%34, %36) {_tpu_replicate = "cluster"} # "momentum/mul_2" : f32[6,8]
    %38 = sub(%30, %37) {_tpu_replicate = "cluster"} # "momentum/sub" : f32[6,8]
    %39 = assign(%38) {variable = @"hidden", _tpu_replicate = "cluster"} # "momentum/assign_1" : f32[6,8]
    %40 = cross_replica_sum(%23) {reduce = "sum", replicas = 2, _class = strings["loc:@gradients/matmul_1_grad/matmul"], _tpu_replicate = "cluster"} # "momentum/cross_replica_sum_1" : f32[8,3]
    %41 = constant() {value = f32[] [0.5], _class = strings["loc:@gradients/matmul_1_grad/matmul"], _tpu_replicate = "cluster"} # "momentum/constant_3" : f32[]
    %42 = mul(%40, %41) {_class = strings["loc:@gradients/matmul_1_grad/matmul"], _tpu_replicate = "cluster"} # "momentum/mul_3" : f32[8,3]
    %43 = read_variable() {variable = @"out", _tpu_replicate = "cluster"} # "momentum/read_variable_2" : f32[8,3]
    %44 = read_variable() {variable = @"out/momentum", _tpu_replicate = "cluster"} # "momentum/read_variable_3" : f32[8,3]
    %45 = constant() {value = f32[] [0.9], _tpu_replicate = "cluster"} # "momentum/constant_4" : f32[]
    %46 = mul(%44, %45) {_tpu_replicate = "cluster"} # "momentum/mul_4" : f32[8,3]
    %47 = add(%46, %42) {_tpu_replicate = "cluster"} # "momentum/add_1" : f32[8,3]
    %48 = assign(%47) {variable = @"out/momentum", _tpu_replicate = "cluster"} # "momentum/assign_2" : f32[8,3]
    %49 = constant() {value = f32[] [0.1], _tpu_replicate = "cluster"} # "momentum/constant_5" : f32[]
    %50 = mul(%47, %49) {_tpu_replicate = "cluster"} # "momentum/mul_5" : f32[8,3]
    %51 = sub(%43, %50) {_tpu_replicate = "cluster"} # "momentum/sub_1" : f32[8,3]
    %52 = assign(%51) {variable = @"out", _tpu_replicate = "cluster"} # "momentum/assign_3" : f32[8,3]
    %53 = no_op() ^%39 ^%35 ^%52 ^%48 {_tpu_replicate = "cluster"} # "momentum/momentum"
    %54 = constant() {value = i64[] [1], _tpu_replicate = "cluster"} # "constant" : i64[]
    %55 = assign_add(%54) {variable = @"global_step", _tpu_replicate = "cluster"} # "assign_add" : i64[]
    %56 = no_op() ^%53 ^%55 {_tpu_replicate = "cluster"} # "train_op"
    %57 = convert(%9) {dtype = i32, _tpu_replicate = "cluster"} # "convert" : i32[12]
    %58 = identity(%11) ^%56 {_tpu_replicate = "cluster"} # "identity" : f32[]
    %59 = convert(%58) {dtype = f64, _tpu_replicate = "cluster"} # "convert_1" : f64[]
    %60 = constant() {value = i64[] [1], _tpu_replicate = "cluster"} # "constant_1" : i64[]
    %61 = add(%1, %60) {_tpu_replicate = "cluster"} # "add" : i64[]
    %62 = identity(%61) ^%3 {_tpu_replicate = "cluster"} # "identity_1" : i64[]
    %63 = identity(%59) ^%3 {_tpu_replicate = "cluster"} # "identity_2" : f64[]
    %64 = identity(%1) ^%3 {_tpu_replicate = "cluster"} # "identity_3" : i64[]
    return %62, %63
  }) : i64[], f64[]
  %32 = convert(%31:1) {dtype = f32, _tpu_replicate = "cluster"} # "convert_1" : f32[]
  %33 = all_reduce(%32) {reduce = "mean", _tpu_replicate = "cluster"} # "all_reduce" : f32[]
  %34 = identity(%31:0) {_tpu_replicate = "cluster"} # "identity" @"/device:TPU_REPLICATED_CORE:0" : i64[]
  %35 = identity(%33) {_tpu_replicate = "cluster"} # "identity_1" @"/device:TPU_REPLICATED_CORE:0" : f32[]
  %36 = no_op() ^%14 {_tpu_replicate = "cluster"} # "no_op"
  %37:2 = tpu_replicated_output(%34) {num_replicas = 2} # "output0" : i64[], i64[]
  %38 = identity(%37:0) ^%36 # "output_0_shard_0" : i64[]
  %39 = identity(%37:1) ^%36 # "output_0_shard_1" : i64[]
  %40:2 = tpu_replicated_output(%35) {num_replicas = 2} # "output1" : f32[], f32[]
  %41 = identity(%40:0) ^%36 # "output_1_shard_0" : f32[]
  %42 = identity(%40:1) ^%36 # "output_1_shard_1" : f32[]
  %43 = tpu_compilation_result() ^%14 {_tpu_compilation_status = "cluster"} # "tpu_compilation_result" : string[]
  %44 = read_variable() ^%38 {variable = @"hidden"} # "read_variable_1" : f32[6,8]
  %45 = is_finite(%44) # "is_finite" : bool[6,8]
  %46 = reduce_and(%45) {axes = [0, 1], keep_dims = false} # "reduce_and" : bool[]
  %47 = host(%46) {kernel = kernel "check_numbers", state = object "label"} # "check_numbers"
  %48 = read_variable() ^%38 {variable = @"out"} # "read_variable_2" : f32[8,3]
  %49 = is_finite(%48) # "is_finite_1" : bool[8,3]
  %50 = reduce_and(%49) {axes = [0, 1], keep_dims = false} # "reduce_and_1" : bool[]
  %51 = host(%50) {kernel = kernel "check_numbers", state = object "label"} # "check_numbers_1"
  %52 = no_op() ^%47 ^%51 ^%38 # "group_deps"
  %53 = host(%38) {kernel = kernel "has_steps"} # "has_steps"
  %54 = identity(%41) ^%53 # "identity_2" : f32[]
  %55 = host(%54) {kernel = kernel "summary", state = object "summary"} # "summary"
  %56 = read_variable() {variable = @"global_step"} # "read_variable_3" : i64[]
  %57 = read_variable() {variable = @"global_step"} # "read_variable_4" : i64[]
  %58 = read_variable() {variable = @"global_step"} # "read_variable_5" : i64[]
  %59 = no_op() ^%55 # "summaries"
  %60 = read_variable() {variable = @"tpu_estimator/iterations_per_loop"} # "read_variable_6" : i32[]
  %61 = shutdown_distributed_tpu() {kernel = kernel "shutdown_distributed_tpu", state = object "system's job"} # "shutdown_distributed_tpu" @"/job:worker/device:TPU_SYSTEM:0"
  %62 = no_op() ^%3 ^%22 ^%24 ^%27 ^%30 # "init"
  %63 = no_op() ^%6 # "local_init"
  %64 = is_variable_initialized() {variable = @"global_step"} # "report_uninitialized_variables/is_variable_initialized" : bool[]
  %65 = is_variable_initialized() {variable = @"hidden"} # "report_uninitialized_variables/is_variable_initialized_1" : bool[]
  %66 = is_variable_initialized() {variable = @"out"} # "report_uninitialized_variables/is_variable_initialized_2" : bool[]
  %67 = is_variable_initialized() {variable = @"hidden/momentum"} # "report_uninitialized_variables/is_variable_initialized_3" : bool[]
  %68 = is_variable_initialized() {variable = @"out/momentum"} # "report_uninitialized_variables/is_variable_initialized_4" : bool[]
  %69 = is_variable_initialized() {variable = @"tpu_estimator/iterations_per_loop"} # "report_uninitialized_variables/is_variable_initialized_5" : bool[]
  %70 = host(%64, %65, %66, %67, %68, %69) {kernel = kernel "report_uninitialized_variables", state = object "names"} # "report_uninitialized_variables/report_uninitialized_variables" : string[6]
  %71 = is_variable_initialized() {variable = @"global_step"} # "report_uninitialized_global_variables/is_variable_initialized" : bool[]
  %72 = is_variable_initialized() {variable = @"hidden"} # "report_uninitialized_global_variables/is_variable_initialized_1" : bool[]
  %73 = is_variable_initialized() {variable = @"out"} # "report_uninitialized_global_variables/is_variable_initialized_2" : bool[]
  %74 = is_variable_initialized() {variable = @"hidden/momentum"} # "report_uninitialized_global_variables/is_variable_initialized_3" : bool[]
  %75 = is_variable_initialized() {variable = @"out/momentum"} # "report_uninitialized_global_variables/is_variable_initialized_4" : bool[]
  %76 = host(%71, %72, %73, %74, %75) {kernel = kernel "report_uninitialized_variables", state = object "names"} # "report_uninitialized_global_variables/report_uninitialized_variables" : string[5]
  %77 = no_op() ^%55 # "merge_all_summaries"
}
collection "variables" = @"global_step", @"hidden", @"out", @"hidden/momentum", @"out/momentum"
collection "global_step" = @"global_step"
collection "tpu_estimator_iterations_per_loop" = @"tpu_estimator/iterations_per_loop"
collection "local_variables" = @"tpu_estimator/iterations_per_loop"
collection "trainable_variables" = @"hidden", @"out"
collection "_tpu_enqueue_ops" = op %10
collection "_tpu_train_op" = op %52
collection "summaries" = op %55
