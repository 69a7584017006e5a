// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// TPU systems: find one by name, query its devices, initialize it.
//
// A name is one of
//   "" or "local"              this machine's pod: the devices of the runtime's
//                              plug-in (lockstep/runtime.h), else 8 cores of
//                              one host
//   virtual:AxB[xC][,cores=N][,hosts=H]
//                              a pod of A x B x C chips of N cores (default 2),
//                              split along x over H hosts (default 1); for
//                              ,fault= see ls_pod_inject
//   grpc://HOST[:PORT],...     addresses of workers
// or any other, which the caller's lookup service resolves. Local and virtual
// pods have the names, shapes and rules of real ones, and compute on this
// machine. A core of a plug-in's device has the coordinates that the plug-in
// tells, else those of a line, and a replica runs on the device of its first
// core. Addresses are parsed and shown; nothing is connected to.
//
// Threads: any number of threads may use a resolver at the same time; one sets
// its task, while no other reads it.
#ifndef LOCKSTEP_TPU_SYSTEM_H_
#define LOCKSTEP_TPU_SYSTEM_H_

#include "lockstep/cluster.h"
#include "lockstep/graph.h"
#include "lockstep/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Services of the caller ------------------------------------------------
typedef struct ls_tpu_endpoint {
  const char *address;
  int port;  // 0: 8470.
} ls_tpu_endpoint;

// Result of a lookup of a TPU. Everything is lent until the next call.
typedef struct ls_tpu_node {
  const char *state;  // Only "READY" can be used.
  const ls_tpu_endpoint *endpoints;
  size_t num_endpoints;
  ls_tpu_endpoint single;  // Used if there are no endpoints.
} ls_tpu_node;

// A query of the system at a master.
typedef struct ls_tpu_question {
  const char *master;
  bool wants_topology;
  bool initializes;  // Also initializes the system.
} ls_tpu_question;

// Answer to a query, lent until the next call.
typedef struct ls_tpu_answer {
  const char *const *devices;  // Names of all its devices.
  size_t num_devices;
  const void *topology;  // Serialized; if requested.
  size_t topology_size;
} ls_tpu_answer;

// ---- Resolvers -------------------------------------------------------------
// A reference-counted object.
typedef struct ls_tpu_resolver ls_tpu_resolver;

// Zero in a field means its default. Everything is copied.
typedef struct ls_tpu_resolver_options {
  // Name of the system. If it is missing or empty it comes from the
  // environment: KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS, else TPU_NAME, else
  // tpu_node_name of the JSON in TPU_CONFIG, which may also have a project and
  // a zone, else it is the local system.
  const char *name;
  const char *const *names;  // Alternative to `name`: a list of one.
  size_t num_names;
  const char *zone, *project;
  const char *job;  // Job of the workers. Default "worker".
  // Job of the coordinator. Default: none, or "coordinator" if it has an
  // address.
  const char *coordinator;
  const char *coordinator_address;  // Default: a free port of this machine, if
                                    // there is a coordinator.
  // Looks a name up, on any thread. NOT_FOUND: there is none.
  ls_status (*lookup)(void *user, const char *name, const char *zone,
                      const char *project, ls_tpu_node *out_node);
  // Queries the system at a master. DEADLINE_EXCEEDED is retried.
  ls_status (*query)(void *user, const ls_tpu_question *question,
                     ls_tpu_answer *out_answer);
  void *user;
  // Shape of the local system, as after "virtual:", which is then simulated.
  // Default: its current one, if it exists; else the environment's
  // LS_LOCAL_POD, else the devices of the runtime's plug-in, else "2x2".
  const char *local;
  // Capacity of an infeed or outfeed, in tuples. Default 64.
  int32_t queue_depth;
  // Memory of a core: programs that need more fail to compile. Default: no
  // limit.
  int64_t core_bytes;
  // Number of retries of a query for devices, and for metadata, and the delay
  // before each. Defaults 120, 288 and 1000.
  ls_opt device_retries, metadata_retries, retry_ms;
} ls_tpu_resolver_options;

// Creates a resolver. The caller owns a reference. `options` may be NULL.
//   LS_INVALID_ARGUMENT  no name in the list; an invalid virtual pod, address
//                        or TPU_CONFIG: names the part.
//   LS_UNIMPLEMENTED     more than one name.
LS_API LS_MUST_USE ls_status ls_tpu_resolver_create(
    const ls_tpu_resolver_options *options, ls_tpu_resolver **out_resolver);
// Creates a resolver, connects to its system and initializes that.
LS_API LS_MUST_USE ls_status ls_tpu_resolver_connect(
    const ls_tpu_resolver_options *options, ls_tpu_resolver **out_resolver);
// Adds a reference: a copy of a resolver is the same one.
LS_API ls_tpu_resolver *ls_tpu_resolver_retain(ls_tpu_resolver *resolver);
LS_API void ls_tpu_resolver_release(ls_tpu_resolver *resolver);

// Return the values it was created from; NULL if not given. Lent.
LS_API const char *ls_tpu_resolver_name(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_zone(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_project(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_job(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_coordinator(const ls_tpu_resolver *resolver);
LS_API const char *
ls_tpu_resolver_coordinator_address(const ls_tpu_resolver *resolver);
LS_API const char *ls_tpu_resolver_environment(const ls_tpu_resolver *resolver);
// Returns "/job:worker/task:0".
LS_API ls_device_name
ls_tpu_resolver_coordination_leader(const ls_tpu_resolver *resolver);
// Get and set the task of this process: initially the job's task 0.
LS_API const char *ls_tpu_resolver_task_type(const ls_tpu_resolver *resolver);
LS_API int32_t ls_tpu_resolver_task_id(const ls_tpu_resolver *resolver);
LS_API LS_MUST_USE ls_status ls_tpu_resolver_set_task(ls_tpu_resolver *resolver,
                                                      const char *type,
                                                      int32_t id);
// Returns the hardware's features, a serialized TPUHardwareFeature, and its
// size; NULL before the system is initialized through this resolver. Lent.
LS_API const char *ls_tpu_resolver_hardware(const ls_tpu_resolver *resolver,
                                            size_t *out_size);

// ---- Clusters --------------------------------------------------------------
// Returns the system's workers, looked up again at each call, and its
// coordinator. Local and virtual systems have none. The caller destroys the
// spec with ls_cluster_spec_destroy.
//   LS_INVALID_ARGUMENT     the name is unknown.
//   LS_FAILED_PRECONDITION  the TPU is not READY.
LS_API LS_MUST_USE ls_status ls_tpu_resolver_cluster_spec(
    const ls_tpu_resolver *resolver, ls_cluster_spec **out_spec);

enum { LS_MAX_MASTER = 512 };
typedef struct ls_master {
  char text[LS_MAX_MASTER];
} ls_master;

// Gets the master of a task, "grpc://" and its address; by default (NULL, not
// set) of the resolver's own task. For the local system "", for a virtual one
// its name.
//   LS_INVALID_ARGUMENT  there is no such job or task.
LS_API LS_MUST_USE ls_status
ls_tpu_resolver_master(const ls_tpu_resolver *resolver, const char *task_type,
                       ls_opt task_id, ls_master *out_master);
// Returns the job on whose devices to place ops: none (NULL) on the local
// masters "" and "local"; without a cluster "tpu_worker"; else its only job
// other than "coordinator". Lent by `spec`.
//   LS_INVALID_ARGUMENT  a cluster with a "tpu_worker"; more or fewer jobs.
LS_API LS_MUST_USE ls_status ls_tpu_placement_job(const char *master,
                                                  const ls_cluster_spec *spec,
                                                  const char **out_job);

// ---- Devices of a system ---------------------------------------------------
// Gets the number of TPUs per host; 0: the system has none. For systems other
// than local and virtual ones `query` is required.
//   LS_FAILED_PRECONDITION  hosts differ, or the system did not answer in time.
LS_API LS_MUST_USE ls_status ls_tpu_resolver_num_accelerators(
    const ls_tpu_resolver *resolver, int32_t *out_tpus);

typedef struct ls_tpu_metadata {
  int32_t num_cores, num_hosts, num_of_cores_per_host;
  ls_topology *topology;  // NULL unless requested.
  // All devices, by their canonical names, sorted by job, replica, task, type
  // and index.
  const ls_device_name *devices;
  size_t num_devices;
} ls_tpu_metadata;

// Queries the metadata of a system. The caller destroys it with
// ls_tpu_metadata_destroy.
//   LS_FAILED_PRECONDITION  hosts differ in their cores; a topology of a system
//                           without TPUs.
//   LS_INVALID_ARGUMENT     the system did not answer in time.
//   LS_UNIMPLEMENTED        addresses, and no query.
LS_API LS_MUST_USE ls_status
ls_tpu_metadata_query(const ls_tpu_resolver *resolver, bool want_topology,
                      ls_tpu_metadata **out_metadata);
LS_API void ls_tpu_metadata_destroy(ls_tpu_metadata *metadata);

// ---- Systems ---------------------------------------------------------------
// Connects to the system, before all other calls; may be repeated. Calls that
// first need the local system load the plug-in, and give its errors.
//   LS_FAILED_PRECONDITION  hosts of a plug-in have different numbers of
//                           devices.
//   LS_UNIMPLEMENTED        addresses, and no query: names the first.
LS_API LS_MUST_USE ls_status ls_tpu_connect(const ls_tpu_resolver *resolver);
// Initializes the system; from then on its devices exist and compute. A
// repetition warns, since it loses the state of the devices: queues are empty
// and open again, ops are compiled again. While a function is being traced it
// only returns the topology. The caller releases `*out_topology`;
// `out_topology` may be NULL.
//
// A job has one system at a time, as its devices are named by it. Objects made
// for a system (strategies, assignments of its topology, computations, infeed
// and outfeed ops, estimators) stay bound to it: they are compiled again when
// the system is initialized again, and refused with FAILED_PRECONDITION while
// it is not, whenever they were compiled; also if the name then stands for a
// system of another size. The local system computes without initialization,
// until it is shut down.
//   LS_NOT_FOUND            it has no TPUs: lists the devices.
//   LS_FAILED_PRECONDITION  another system of its job is initialized: names it.
//   LS_UNIMPLEMENTED        addresses, and no query.
LS_API LS_MUST_USE ls_status ls_tpu_initialize(ls_tpu_resolver *resolver,
                                               ls_topology **out_topology);
// Shuts the system down: from then on the name stands for another system. Warns
// if it was not initialized.
//   LS_FAILED_PRECONDITION  a function is being traced.
LS_API LS_MUST_USE ls_status ls_tpu_shutdown(ls_tpu_resolver *resolver);

// A system that is initialized.
typedef struct ls_tpu_system {
  const char *name, *job;
  ls_topology *topology;
} ls_tpu_system;
// Table of the initialized systems.
typedef struct ls_tpu_systems {
  const ls_tpu_system *systems;
  size_t count;
} ls_tpu_systems;
LS_API LS_MUST_USE ls_status
ls_tpu_initialized_systems(ls_tpu_systems **out_systems);
LS_API void ls_tpu_systems_destroy(ls_tpu_systems *systems);

// Lists all devices of the runtime: CPUs and GPUs, then those of the
// initialized local and virtual systems. The caller owns `*out_devices` and
// frees it with the runtime's allocator.
LS_API LS_MUST_USE ls_status ls_runtime_devices(ls_runtime *runtime,
                                                ls_device_name **out_devices,
                                                size_t *out_count);

// Gets the device that represents the system of a job:
// "/job:w/device:TPU_SYSTEM:0"; without a job (NULL) "/device:TPU_SYSTEM:0".
LS_API LS_MUST_USE ls_status ls_tpu_system_device(const char *job,
                                                  ls_device_name *out_name);
// Returns logical core n of a replica: "device:TPU_REPLICATED_CORE:n".
LS_API ls_device_name ls_tpu_core_device(int32_t core);

// Initialize and shut down by ops on the system's device: of the system of a
// job that is initialized, else the only one connected, or of the local system;
// a run fails with FAILED_PRECONDITION if several are connected and none is
// initialized. The first op returns the serialized topology, a string scalar.
// Repeated initialization does not warn.
LS_PLACED ls_tensor ls_tpu_initialize_op(const char *job);
LS_PLACED ls_op ls_tpu_shutdown_op(const char *job);

// ---- Pods ------------------------------------------------------------------
// Table of a local or virtual system: hosts, cores, positions. A
// reference-counted object.
typedef struct ls_pod ls_pod;
// Returns the pod of a system; the caller releases it.
//   LS_UNIMPLEMENTED  another kind of system.
LS_API LS_MUST_USE ls_status ls_tpu_pod(const ls_tpu_resolver *resolver,
                                        ls_pod **out_pod);
LS_API void ls_pod_release(ls_pod *pod);  // NULL is fine.
// Draws its mesh, hosts and cores; the caller frees the text with the runtime's
// allocator.
LS_API LS_MUST_USE ls_status ls_pod_print(const ls_pod *pod, char **out_text);

// ---- Faults ----------------------------------------------------------------
// Planned faults of a pod: a fault strikes at a step of one of its operations.
// Steps of an operation are counted from 0 since the fault was planned or the
// system was initialized: each compilation of a program with a computation for
// its cores, each run of one, each take of a tuple from an infeed, each put of
// one into an infeed or outfeed, each query of a host's health.
//
// A run in progress when the system is initialized again is refused at the next
// queue where it waits; later runs are compiled again.
typedef enum ls_pod_fault_kind {
  // The host, or a core, is lost: calls and takes end with UNAVAILABLE, which
  // names it. Variables have the values of the last complete step. It returns
  // when the system is initialized again.
  LS_POD_HOST_PREEMPTED,
  LS_POD_CORE_LOST,
  // One of the tuples put into a core's infeed is lost, delayed, changed in
  // type (a byte), or the last: the infeed closes.
  LS_POD_TUPLE_LOST,
  LS_POD_TUPLE_LATE,
  LS_POD_TUPLE_CHANGED,
  LS_POD_INFEED_CLOSED,
  // A core delays a step, by the runtime's clock, with a line in the log; or
  // fails to put a tuple into its outfeed, with ABORTED and the fault's text.
  LS_POD_CORE_SLOW,
  LS_POD_OUTFEED_FAILS,
  // A program for a core of the host fails to compile: INVALID_ARGUMENT with
  // the fault's text. Or a core has only `bytes` of memory: programs that need
  // more fail to compile.
  LS_POD_COMPILE_FAILS,
  LS_POD_MEMORY_SHORT,
  // The host reports that it will shut down soon, does not answer, or cannot
  // report its health.
  LS_POD_HOST_LAME,
  LS_POD_HOST_SILENT,
  LS_POD_NO_HEARTBEAT,
} ls_pod_fault_kind;

// Zero in a field means that value.
typedef struct ls_pod_fault {
  ls_pod_fault_kind kind;
  // The core by its number on the host; ignored by faults of a host.
  int32_t host, core;
  int64_t at_step;  // Steps before it happens.
  int64_t every;    // Repeats at every so many steps after that; 0: once.
  int64_t nanos;    // Delay. Required for delays.
  int64_t bytes;    // Memory. Required for LS_POD_MEMORY_SHORT.
  // Text of the outfeed's or compiler's error. NULL: "planned". Copied.
  const char *text;
} ls_pod_fault;

// Plans a fault. A system's name can do so too, at its end and as often as
// needed:
//   ,fault=KIND@hostH[.coreC][:stepK][:everyN][:DURATION][:BYTES]
// KIND is preempt, lost, drop, late, change, close, slow, fail, compile,
// memory, lame, silent or noheartbeat, as above, DURATION a number of ns, us,
// ms or s, and BYTES one of B, KiB, MiB or GiB:
// "virtual:4x4,fault=preempt@host0:step9".
//   LS_INVALID_ARGUMENT  no such kind, host or core; a number below 0; a
//                        missing delay or memory size.
LS_API LS_MUST_USE ls_status ls_pod_inject(ls_pod *pod,
                                           const ls_pod_fault *fault);
// Removes all faults and undoes those that have happened.
LS_API void ls_pod_heal(ls_pod *pod);

// ---- Hosts -----------------------------------------------------------------
LS_API int32_t ls_pod_num_hosts(const ls_pod *pod);

typedef enum ls_pod_health {
  LS_POD_HEALTHY,
  LS_POD_LAME,  // The host will shut down soon: save, and shut it down.
} ls_pod_health;

// Queries a host's health, for at most `timeout_nanos` of the runtime's clock.
//   LS_INVALID_ARGUMENT   no such host; a time below 1.
//   LS_UNIMPLEMENTED      it cannot report its health.
//   LS_DEADLINE_EXCEEDED  it did not answer in time.
//   LS_UNAVAILABLE        it is lost.
LS_API LS_MUST_USE ls_status ls_pod_ask_health(ls_pod *pod, int32_t host,
                                               int64_t timeout_nanos,
                                               ls_pod_health *out_health);
// Shuts a host down now: as if it were preempted, until the system is
// initialized again.
//   LS_INVALID_ARGUMENT  no such host.
LS_API LS_MUST_USE ls_status ls_pod_shut_down_host(ls_pod *pod, int32_t host);
// From now on a host whose health is not queried for this long shuts itself
// down, as if it were preempted; 0: turns that off.
//   LS_INVALID_ARGUMENT  a time below 0.
LS_API LS_MUST_USE ls_status ls_pod_watch(ls_pod *pod, int64_t timeout_nanos);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TPU_SYSTEM_H_
